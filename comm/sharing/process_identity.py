"""Which process a number means: process ids are used again, their start times are not."""

from __future__ import annotations

from typing import NamedTuple

_STATE, _START = 0, 19  # of the fields behind the command's name in /proc/PID/stat (proc(5))
_DEAD = (b"Z", b"X")


class ProcessIdentity(NamedTuple):
    """A process of this machine: its number, and when it started, in clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The process that has this number now; None where no process has, or only a dead one."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        return None if fields[_STATE] in _DEAD else cls(pid, int(fields[_START]))
