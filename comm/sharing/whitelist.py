"""Whitelist: the processes that may have a model's weights."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from ..host.process_identity import KnownProcess

_LIST = re.compile(r"^(?!,$)(\d+(,\s*\d+)*,?)?$")
"""MindSpore Lite's own pattern for `shareable_weight_pid_list`."""

_LARGEST = 2**22
"""The kernel's largest process id (PID_MAX_LIMIT)."""


class Whitelist:
    """Processes, not process ids; any thread may change it while others ask."""

    def __init__(self, pids: Iterable[int] = ()) -> None:
        self._lock = threading.Lock()
        self._listed: dict[int, KnownProcess] = {}
        self.missing = [pid for pid in pids if pid and not self.allow(pid)]

    def allow(self, pid: int) -> bool:
        """List the process that has this id now; False where there is none.

        A process that takes the id over later is another one, and not listed.
        """
        found = KnownProcess.of(pid)
        if found is None:
            return False
        with self._lock:
            self._listed[pid] = found
        return True

    def revoke(self, pid: int) -> None:
        """Take a process off the list, if it is on it."""
        with self._lock:
            self._listed.pop(pid, None)

    def clear(self) -> None:
        """Take all processes off the list."""
        with self._lock:
            self._listed.clear()

    def permits(self, pid: int) -> bool:
        """Whether the process that has this id now is the one that was listed."""
        with self._lock:
            listed = self._listed.get(pid)
        return listed is not None and listed.lives

    @property
    def pids(self) -> list[int]:
        """The process ids on the list, ascending."""
        with self._lock:
            return sorted(self._listed)


def parse_pids(text: str) -> list[int]:
    """The process ids in a text such as "0, 4711, 4712". Raises ValueError."""
    if not _LIST.match(text):
        raise ValueError(
            f"got '{text}', expected process ids separated by commas, such as '4711, 4712'"
        )
    pids = [int(part) for part in text.split(",") if part.strip()]
    if any(pid > _LARGEST for pid in pids):
        raise ValueError(f"got {max(pids)}, expected process ids up to {_LARGEST}")
    return pids
