"""Which process a number means: process ids are used again, their start times are not."""

from __future__ import annotations

import os
import select
import weakref
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


class KnownProcess:
    """A process that is told from any later one of its number, even in the moment of its end.

    The kernel is asked through a pidfd, which takes microseconds; where it gives none, by the start time.
    """

    def __init__(self, identity: ProcessIdentity, pidfd: int | None) -> None:
        """`pidfd` becomes this object's."""
        self._identity, self._pidfd = identity, pidfd
        if pidfd is not None:
            weakref.finalize(self, os.close, pidfd)

    @classmethod
    def of(cls, pid: int) -> KnownProcess | None:
        """The process that has this number now; None where no process has, or only a dead one."""
        found = ProcessIdentity.of(pid)
        if found is None:
            return None
        try:
            known = cls(found, os.pidfd_open(pid))
        except OSError:  # no descriptor is free, or Linux is older than 5.3
            return cls(found, None)
        return known if ProcessIdentity.of(pid) == found else None  # the pidfd may be of one that came in between

    @property
    def lives(self) -> bool:
        """Whether it has not ended: as long as that is so, its number means it."""
        if self._pidfd is None:
            return ProcessIdentity.of(self._identity.pid) == self._identity
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return not ended.poll(0)
