"""Agent: starts ranks of an orchestrator on this host as its children, and ends them with it."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from ...comm.agents.messages import (
    EndIncarnation,
    FromAgent,
    IncarnationEnded,
    ModelAnswer,
    PrepareIncarnation,
    ToAgent,
)
from ...comm.agents.order_messages import (
    GrantRoom,
    OtherOrder,
    RankFault,
    ReleaseOrder,
    RunOrder,
)
from ...comm.agents.weight_messages import DropWeights, PutWeight
from ...comm.errors import RankFailed
from ...comm.host.resources import gpu_count
from ...comm.host.secrecy import close_to_others
from ...comm.processes.process_ender import AT_ONCE
from ...comm.transport.frame_stream import FrameStream, StreamEnded
from ...comm.transport.key_file import Keys
from ...comm.transport.messages import AgentJoin
from ..event_loop.loop import EventLoopThread
from .agent_connection import AgentConnection
from .agent_parts import AgentParts
from .hosted_incarnation import HostedIncarnation

_LOG = logging.getLogger("rankmesh.agent")
_ENDED = 8.0
"""Seconds within which killed processes end."""

_LOOK = 0.05
_AGAIN = 0.5


class AgentSession:
    """The incarnations of one connection, in the thread that receives."""

    def __init__(
        self,
        stream: FrameStream[FromAgent, ToAgent],
        loop: EventLoopThread,
        connection: AgentConnection,
    ) -> None:
        self._stream = stream
        self._loop = loop
        self._parts = AgentParts.made(loop, connection.shared, connection.addressed)
        self._incarnations: dict[int, HostedIncarnation] = {}
        stream.wait_by(self._wait)

    def serve(self) -> None:
        """Do what the orchestrator asks, until the connection ends; then end all ranks."""
        try:
            while True:
                self._handle(*self._stream.receive())
        except StreamEnded as error:
            _LOG.info("the connection has ended: %s", error)
        finally:
            self._end()

    def _wait(self) -> None:
        """Wait for bytes of the orchestrator, and send the answers that come meanwhile: so the same
        thread has an order and its answer.
        """
        slots, slot = self._parts.slots, self._parts.slot
        while slots.wait_beside(slot, self._stream.fileno()):
            for incarnation in self._incarnations.values():
                incarnation.take_answers()

    def _handle(self, message: ToAgent, size: int) -> None:
        if isinstance(message, PrepareIncarnation):
            self._prepare(message)
            return
        if isinstance(message, PutWeight):
            self._parts.updated.put(message, size, self._stream)
            return
        if isinstance(message, DropWeights):
            self._loop.call_soon(partial(self._parts.updated.drop, message))
            return
        incarnation = self._incarnations.get(message.incarnation)
        if incarnation is None:
            if isinstance(message, EndIncarnation):
                self._stream.send(IncarnationEnded(message.incarnation, []))
            return
        if isinstance(message, ModelAnswer):
            incarnation.answer(message.answer)
        elif isinstance(message, RunOrder | OtherOrder | GrantRoom | ReleaseOrder):
            incarnation.order(message, self._stream)
        else:
            self._loop.call_soon(lambda: incarnation.handle(message))

    def _prepare(self, message: PrepareIncarnation) -> None:
        for number in [number for number, one in self._incarnations.items() if one.gone]:
            del self._incarnations[number]
        try:
            incarnation = HostedIncarnation(message, self._parts, self._stream.send)
        except OSError as error:
            rank = message.ranks[0].rank.rank
            self._stream.send(RankFault(message.incarnation, rank, f"cannot be started: {error}"))
            return
        self._incarnations[message.incarnation] = incarnation
        self._loop.call_soon(incarnation.begin)

    def _end(self) -> None:
        for incarnation in self._incarnations.values():
            self._loop.call_soon(partial(incarnation.end, AT_ONCE))
        until = time.monotonic() + _ENDED
        while time.monotonic() < until and not all(one.gone for one in self._incarnations.values()):
            time.sleep(_LOOK)
        self._parts.close()


def run_agent(
    address: tuple[str, int],
    keys: Keys,
    name: str = "",
    ranks: int | None = None,
    wait: float = 60.0,
    host_timeout: float = 5.0,
    joined: Callable[[], None] = lambda: None,
    pinned: bool = True,
) -> None:
    """Serve the orchestrator at `address` until it closes, and join it again where it was lost.

    `ranks` is how many it takes, by default one per core. Ranks that are `pinned` have cores of
    their own. An orchestrator that is not there is awaited for `wait` seconds; `joined` is called
    each time that it has answered. Raises UsageError where it refuses, RankFailed if it never does.
    """
    close_to_others()
    join = _introduction(name, ranks, pinned)
    loop = EventLoopThread()
    loop.start()
    until = time.monotonic() + wait
    dismissed = False
    try:
        while not dismissed:
            connection = AgentConnection(address, keys, host_timeout, until)
            try:
                stream = connection.join(join, max(1.0, until - time.monotonic()))
                joined()
                AgentSession(stream, loop, connection).serve()
                until = time.monotonic() + wait
            except RankFailed:
                if time.monotonic() >= until:
                    raise
                time.sleep(_AGAIN)
            finally:
                connection.close()
            dismissed = connection.dismissed
    finally:
        loop.stop()
        loop.join()


def _introduction(name: str, ranks: int | None, pinned: bool) -> AgentJoin:
    cores = sorted(os.sched_getaffinity(0))
    host = socket.gethostname()
    places = ranks or len(cores)
    own = cores if pinned else []
    return AgentJoin(name or host, host, os.getpid(), version("rankmesh"), places, own, gpu_count())
