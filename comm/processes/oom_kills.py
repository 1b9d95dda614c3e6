"""How often the kernel has killed a process for want of memory, by its own counters."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..memory_limit import control_group_files

_COUNTERS = ("memory.events", "memory.oom_control")
_HOST = "/proc/vmstat"


def oom_kills() -> int:
    """The count of this process's control groups (v2 or v1), else of the host; 0 where the kernel tells neither.

    It rises before the process is killed.
    """
    folders = [Path(file).parent for file in control_group_files()]
    counted = (_count(folder / name) for folder in folders for name in _COUNTERS)
    own = next((count for count in counted if count is not None), None)
    return own if own is not None else _count(Path(_HOST)) or 0


def _count(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None
