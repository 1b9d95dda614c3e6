"""Signals that only get noted: the supervisor's loop acts on them, in one place."""

from __future__ import annotations

import signal
import socket
from types import FrameType, TracebackType

_SIGNALLED = 128
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The supervisor was told to stop by a signal; not an error, and not to be swallowed as one."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit status that shells show for the signal."""
        return _SIGNALLED + self.number


class SignalNotes:
    """While entered, SIGINT, SIGTERM and SIGHUP make `fileno` readable instead of acting at once.

    A SIGHUP that is ignored (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self._readable, self._writable = socket.socketpair()
        self._readable.setblocking(False)
        self._writable.setblocking(False)
        self._old: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> SignalNotes:
        for number in _STOPPING:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._readable.close()
        self._writable.close()

    def fileno(self) -> int:
        """Readable once a signal came."""
        return self._readable.fileno()

    def take(self) -> int:
        """The number of the signal that came first."""
        return self._readable.recv(1)[0]

    def _note(self, number: int, frame: FrameType | None) -> None:
        try:
            self._writable.send(bytes([number]))
        except BlockingIOError:
            return  # so many notes are waiting that one more says nothing
