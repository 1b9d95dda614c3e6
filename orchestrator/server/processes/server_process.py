"""Server process as its parent sees it: starts it, tells it what changes, and notices its end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable, Sequence

from ....comm.host.process_end import EndOfProcess
from ....comm.processes.rank_process import python
from ....comm.transport.message_stream import MessageStream
from ..observation.activity import ServerActivity
from .loop_stream import LoopStream
from .messages import (
    Activity,
    Begin,
    FromProcess,
    Listening,
    ToProcess,
    decode_from_process,
    encode,
)

_MODULE = "rankmesh.orchestrator.server.processes.child"


class ServerProcess:
    """One child; for the loop of its parent."""

    def __init__(
        self,
        begin: Begin,
        files: Sequence[int],
        receive: Callable[[ServerProcess, FromProcess], None],
        ended: Callable[[ServerProcess], None],
    ) -> None:
        """Start it. `files` go with `begin`, behind the end of a socket pair that this makes:
        `endpoint` is the other end. `ended` is called when it has ended. Raises OSError.
        """
        self.place = begin.place
        self.activity = ServerActivity()
        self.listening: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self._receive = receive
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._words = EndOfProcess()
        self.endpoint, theirs = socket.socketpair()
        try:
            self._process, stream = _spawned()
        except OSError:
            self.endpoint.close()
            theirs.close()
            raise
        with theirs:
            self._stream: LoopStream[ToProcess, FromProcess] = LoopStream(
                stream, self._loop, self._take, lambda: None
            )
            self._stream.send(begin, (theirs.fileno(), *files))
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._end)

    def send(self, message: ToProcess) -> None:
        """Send a message; nothing where the process has ended."""
        self._stream.send(message)

    def kill(self) -> None:
        """End it at once."""
        if not self.over.is_set():
            self._process.kill()

    @property
    def epitaph(self) -> str:
        """How it has ended, as the end of a sentence."""
        return self._words.told(self._process.wait())

    def _take(self, message: FromProcess) -> None:
        if isinstance(message, Activity):
            self.activity = message.activity
        elif isinstance(message, Listening) and not self.listening.done():
            self.listening.set_result(message)
        self._receive(self, message)

    def _end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._stream.close()
        self.endpoint.close()
        self.over.set()
        if not self.listening.done():
            self.listening.set_result(Listening(None, f"a server process {self.epitaph}."))
        self._ended(self)


def _spawned() -> tuple[subprocess.Popen[bytes], MessageStream[ToProcess, FromProcess]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        process = subprocess.Popen(
            [*python(_MODULE), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
    return process, MessageStream(ours, encode, decode_from_process)
