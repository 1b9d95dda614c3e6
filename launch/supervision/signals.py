"""Signals by a pipe: wake the event loop of a supervised job, which acts on them in one place."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal has told a command to stop: not an error, and not to be handled as one.

    `outcome` says what has become of its work.
    """

    def __init__(self, number: int, outcome: str = "all ranks were ended") -> None:
        super().__init__(signal.Signals(number).name)
        self.outcome = outcome
        self.exit_code = 128 + number
        """The exit status that shells show for the signal."""


@contextmanager
def interruptible(outcome: str) -> Iterator[None]:
    """Signals raise Interrupted in the block, so that it removes what it has begun.

    Libraries in C++ replace that by an error of their own, which is Interrupted then, too.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise Interrupted(number, outcome)

    old = {one: signal.signal(one, stop) for one in _STOPPING}
    try:
        yield
    except Exception:
        if came:
            raise Interrupted(came[0], outcome) from None
        raise
    finally:
        for one, handler in old.items():
            signal.signal(one, handler)


class SignalPipe:
    """While entered, SIGINT, SIGTERM and SIGHUP make `fileno` readable instead of acting at once.

    A SIGHUP that is ignored (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self._readable, self._writable = socket.socketpair()
        self._readable.setblocking(False)
        self._writable.setblocking(False)
        self._old: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> SignalPipe:
        for number in _STOPPING:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._readable.close()
        self._writable.close()

    def fileno(self) -> int:
        """The descriptor, readable once a signal has come."""
        return self._readable.fileno()

    def take(self) -> int:
        """The number of the first signal."""
        return self._readable.recv(1)[0]

    def _note(self, number: int, frame: FrameType | None) -> None:
        try:
            self._writable.send(bytes([number]))
        except BlockingIOError:
            return  # the pipe is full of signals: one more changes nothing
