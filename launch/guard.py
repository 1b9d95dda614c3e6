"""What a killed launcher can no longer do: end what its ranks have started."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

_DISMISSED = b"."
_STANDARD = 3
"""Descriptors below are standard input, output and error."""


class Guard:
    """While entered, a process of its own waits for the launcher's end, and kills the ranks' sessions if it is sudden.

    Ranks themselves die with the launcher (PDEATHSIG), but not the children of theirs. A rank that has ended
    while the launcher lives is no longer guarded: its process id may become another's.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    def __enter__(self) -> Guard:
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _watch(reading, self._pids)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        with suppress(BrokenPipeError):  # somebody has killed it
            os.write(self._writing, _DISMISSED)
        os.close(self._writing)
        os.waitpid(self._pid, 0)


def _watch(reading: int, pids: Sequence[int]) -> None:
    os.setsid()  # what ends the launcher's group, from a terminal say, must not end this
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kept = os.dup2(reading, _STANDARD)
    for descriptor in range(_STANDARD):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)  # whoever reads the launcher's output must see its end
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    sessions = _until_the_end(kept, pids)
    for session in sessions if os.read(kept, 1) != _DISMISSED else ():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)


def _until_the_end(launcher: int, pids: Sequence[int]) -> set[int]:
    """The ranks that still ran when something came from the launcher, which its end precedes theirs to tell."""
    poll = select.poll()
    poll.register(launcher, select.POLLIN)
    running = {}
    for pid in pids:
        with suppress(ProcessLookupError):
            running[os.pidfd_open(pid)] = pid
    for descriptor in running:
        poll.register(descriptor, select.POLLIN)
    while True:
        ended = [descriptor for descriptor, _ in poll.poll()]
        if launcher in ended:
            return set(running.values())
        for descriptor in ended:
            poll.unregister(descriptor)
            del running[descriptor]
