"""Process end: words for the exit of a process, with the limit of memory that has ended it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

from .resources import control_group_files, memory_limit


class EndOfProcess:
    """Words for the end of a process that starts after this object is made."""

    def __init__(self) -> None:
        self._kills = _kills_for_memory()

    def told(self, status: int) -> str:
        """An exit status, negative for a signal, as the end of a sentence about the process."""
        if status >= 0:
            return f"exited with status {status}"
        named = -status in set(signal.Signals)  # those between SIGRTMIN and SIGRTMAX have no name
        name = signal.Signals(-status).name if named else f"signal {-status}"
        return f"was killed by {name}{self._reason(-status)}"

    def _reason(self, number: int) -> str:
        if number == signal.SIGBUS:
            return " (a model file cut short while it was open?)"
        if number == signal.SIGKILL and _kills_for_memory() > self._kills:
            note = memory_limit().note
            return f" (out of memory?{note and ' '}{note[:1].upper()}{note[1:]})"
        return ""


def _kills_for_memory() -> int:
    """How many processes the kernel has killed for memory: of this process's control groups (v2 or
    v1), else of the host; 0 where the kernel tells neither.

    The count rises before the process is killed.
    """
    folders = [Path(file).parent for file in control_group_files()]
    counted = (
        _count(folder / name)
        for folder in folders
        for name in ("memory.events", "memory.oom_control")
    )
    own = next((count for count in counted if count is not None), None)
    return own if own is not None else _count(Path("/proc/vmstat")) or 0


def _count(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None
