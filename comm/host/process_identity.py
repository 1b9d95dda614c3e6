"""Process identity: state and start of a process by its id, as the kernel tells them in /proc."""

from __future__ import annotations

import os
import select
import weakref
from typing import NamedTuple

# Positions behind the command's name in /proc/PID/stat (proc(5) counts from 1 and has two before).
_STATE, _FLAGS, _STARTED, _WAIT_STATUS = 0, 6, 19, 49
_PF_EXITING = 0x4


class ProcessStat(NamedTuple):
    """A process in the kernel: its state letter, flags, start (clock ticks since boot), and
    the wait status that it ends with (0 where that is not known).
    """

    state: str
    flags: int
    started: int
    wait_status: int

    @classmethod
    def of(cls, pid: int) -> ProcessStat | None:
        """The stat of the process that has this id now; None where there is none to be read."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            status = int(fields[_WAIT_STATUS]) if len(fields) > _WAIT_STATUS else 0
            return cls(fields[_STATE].decode(), int(fields[_FLAGS]), int(fields[_STARTED]), status)
        except (OSError, IndexError, ValueError):
            return None

    @property
    def dead(self) -> bool:
        """Whether it has ended, and only its parent has not waited for it."""
        return self.state in ("Z", "X")

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")

    @property
    def exiting(self) -> bool:
        """Whether the kernel is ending it."""
        return bool(self.flags & _PF_EXITING)

    @property
    def exit_code(self) -> int:
        """The exit code that it ends with, negative for a signal; 0 where that is not known."""
        try:
            return os.waitstatus_to_exitcode(self.wait_status)
        except ValueError:
            return 0


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped the process `pid`; False where there is none."""
    stat = ProcessStat.of(pid)
    return stat is not None and stat.stopped


class ProcessIdentity(NamedTuple):
    """A process of this machine: its id, and its start in clock ticks since boot.

    Process ids are used again; start times tell their processes apart.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The process that has this id now; None where no living process has."""
        stat = ProcessStat.of(pid)
        return None if stat is None or stat.dead else cls(pid, stat.started)


class KnownProcess:
    """A process that is told from any later one of its id, even in the moment of its end.

    The kernel tells it through a pidfd, in microseconds; without one, the start time does.
    """

    def __init__(self, identity: ProcessIdentity, pidfd: int | None) -> None:
        """`pidfd` becomes this object's."""
        self._identity = identity
        self._pidfd = pidfd
        if pidfd is not None:
            weakref.finalize(self, os.close, pidfd)

    @classmethod
    def of(cls, pid: int) -> KnownProcess | None:
        """The process that has this id now; None where no living process has."""
        found = ProcessIdentity.of(pid)
        if found is None:
            return None
        try:
            known = cls(found, os.pidfd_open(pid))
        except OSError:  # no descriptor is free, or Linux is older than 5.3
            return cls(found, None)
        # the pidfd may be of a process that took the id over in between
        return known if ProcessIdentity.of(pid) == found else None

    @property
    def lives(self) -> bool:
        """Whether it has not ended; until then its id means it."""
        if self._pidfd is None:
            return ProcessIdentity.of(self._identity.pid) == self._identity
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return not ended.poll(0)
