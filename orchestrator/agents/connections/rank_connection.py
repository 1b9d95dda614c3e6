"""Rank connection: brings the orders of one rank to another host, and its answers back.

The agent of the host is not between: it starts the rank, watches it and ends it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from ....comm.agents.messages import encode_to_agent
from ....comm.agents.order_messages import (
    FromRank,
    ToRank,
    decode_from_rank,
)
from ....comm.processes.event_loop import Action
from ....comm.serving.orders import InvalidRankData
from ....comm.transport.frame_stream import FrameStream, StreamEnded
from ....comm.transport.seal import Seal, SealKeys
from ....comm.transport.stream_invitation import StreamInvitation
from ....comm.transport.tensor_socket import prepare_watched
from ...event_loop.loop import EventLoopThread
from .agent_reader import AgentReader
from .read_connection import ReadConnection
from .stream_listener import StreamListener

_LOG = logging.getLogger("rankmesh.orchestrator")
_Take = Callable[[FromRank, int, Callable[[memoryview], None]], None]


class RankConnection(ReadConnection[ToRank, FromRank]):
    """One connection, from the invitation to it until its end. For the loop's thread, but for
    `send` and `wait`, and before them for the listener's thread.
    """

    def __init__(self, listener: StreamListener, clear: bool, loop: EventLoopThread) -> None:
        self._listener = listener
        self._clear = clear
        self._loop = loop
        self._lock = threading.Lock()
        self.opened = False
        self._closed = self._ended = False
        self._at_opening: list[Action] = []
        self._at_end: list[Action] = []
        self._token = b""

    def invite(self) -> StreamInvitation:
        """An invitation to the connection, for the rank."""
        invitation = self._listener.invite(self._clear, self._begin)
        self._token = invitation.token
        return invitation

    def take_by(self, take: _Take) -> None:
        """Have messages of the rank taken by `take`, in the threads that read. It gets the bytes
        behind a message, and what reads them; it raises InvalidRankData.
        """
        self._take = take

    def when_open(self, action: Action) -> None:
        """Act once the rank has connected, maybe at once."""
        self._act(self.opened, self._at_opening, action)

    def when_ended(self, action: Action) -> None:
        """Act once the connection has ended, after which nothing is read; maybe at once."""
        self._act(self._ended, self._at_end, action)

    def close(self) -> None:
        """End the connection, or refuse it where it is still to come."""
        with self._lock:
            self._closed = True
        if self._stream is not None:
            self._stream.close()
        elif not self._ended:
            self._listener.forget(self._token)
            self._note_end()

    def _begin(self, sock: socket.socket, keys: SealKeys) -> None:
        with self._lock:
            if self._closed:
                sock.close()
                return
            prepare_watched(sock)
            seals = (Seal(keys.listener), Seal(keys.caller))
            stream: FrameStream[ToRank, FromRank] = FrameStream(
                sock, seals, self._clear, encode_to_agent, decode_from_rank
            )
            self._reader = AgentReader(stream, self._take_one)
            self._stream = stream
        threading.Thread(target=self._read, name="rankmesh-rank", daemon=True).start()
        self._loop.call_soon(self._note_open)

    def _read(self) -> None:
        assert self._reader is not None
        try:
            self._reader.serve()
        except (StreamEnded, InvalidRankData) as error:
            _LOG.debug("the connection of a rank has ended: %s", error)
        finally:
            self._loop.call_soon(self._note_end)

    def _take_one(self) -> None:
        """Take the next message. Raises StreamEnded, InvalidRankData."""
        stream = self._stream
        assert stream is not None
        message, size = stream.receive()
        self._take(message, size, stream.read_into)

    def _note_open(self) -> None:
        self.opened = True
        self._run(self._at_opening)

    def _note_end(self) -> None:
        self._ended = True
        self._run(self._at_end)

    def _act(self, reached: bool, waiting: list[Action], action: Action) -> None:
        if reached:
            action()
        else:
            waiting.append(action)

    def _run(self, actions: list[Action]) -> None:
        while actions:
            actions.pop(0)()


class RankConnections(NamedTuple):
    """Makes the connections of one agent's ranks; see RankConnection."""

    listener: StreamListener
    clear: bool
    loop: EventLoopThread

    def new(self) -> RankConnection:
        """A connection, to which its rank is not yet invited."""
        return RankConnection(*self)
