"""Arena holders: an agent on this host and its ranks, which share the orchestrator's arena."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from ...comm.processes.event_loop import Action, EventLoop
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.transport.message_stream import send


class ArenaHolders:
    """All have one end of a pipe beside the arena: its other end tells when the last one is gone.

    That holds for processes of another container, too, whose process ids mean nothing here.
    """

    def __init__(self, arena: TensorArena, sock: socket.socket) -> None:
        """Send the agent at the other end of `sock` both descriptors. Raises OSError where there is
        no pipe.
        """
        self._end, theirs = os.pipe()
        with suppress(OSError):  # the agent is gone: its connection ends
            send(sock, b"!", [arena.fd, theirs])
        os.close(theirs)

    def __del__(self) -> None:
        if getattr(self, "_end", -1) >= 0:
            os.close(self._end)

    def when_gone(self, loop: EventLoop, action: Action) -> None:
        """Call `action` in the loop's thread once no process has the arena."""

        def gone() -> None:
            loop.forget(self._end)
            action()

        loop.watch(self._end, gone)
