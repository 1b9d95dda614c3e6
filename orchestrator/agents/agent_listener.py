"""Agent listener: admits agents that have the keys, and notices which of them are gone."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from ...comm.errors import UsageError
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.transport.curve import heartbeats
from ...comm.transport.curve_server import CurvePeer, CurveServer
from ...comm.transport.key_file import Keys
from ...comm.transport.messages import (
    AgentDismissed,
    AgentJoin,
    AgentWelcome,
    Beat,
    Failed,
    Message,
)
from ...comm.transport.seal import SealKeys
from ...comm.transport.tensor_socket import prepare
from ..config.agent_settings import AgentSettings
from ..event_loop.loop import EventLoopThread
from .arena_holders import ArenaHolders
from .connections.rank_connection import RankConnections
from .connections.stream_listener import StreamListener
from .remote_agent import RemoteAgent

_LOG = logging.getLogger("rankmesh.orchestrator")
_MOST_AGENTS = 1024
_SETTLE = 0.01
"""Seconds after which an ended connection can be told from one that lasts."""


class AgentListener:
    """A thread that has the encrypted connections of all agents. Over each goes how an agent opens
    its second connection, for all else; and heartbeats, which tell that it is there.
    """

    def __init__(
        self,
        settings: AgentSettings,
        keys: Keys,
        loop: EventLoopThread,
        arena: TensorArena,
        on_joined: Callable[[RemoteAgent], None],
        on_lost: Callable[[RemoteAgent], None],
    ) -> None:
        """Listen; the calls are made in the loop's thread. Agents on this host share the `arena`.

        Raises UsageError where that fails.
        """
        self._settings = settings
        self._arena = arena
        self._loop = loop
        self._on_joined = on_joined
        self._on_lost = on_lost
        self._agents: dict[CurvePeer, RemoteAgent] = {}
        self._tokens: dict[CurvePeer, bytes] = {}
        self._open = True
        self._next_look = 0.0
        host, port = settings.address
        try:
            address = socket.gethostbyname(host)
            beats = heartbeats(settings.host_timeout)
            self._server = CurveServer(address, port, keys, _MOST_AGENTS, beats)
            self._streams = self._opened_streams(address)
        except OSError as error:
            raise UsageError(
                f"listen: {settings.listen} cannot be listened at: {error.strerror or error}. It "
                "must be an address of this host and a free port."
            ) from error
        self._thread = threading.Thread(target=self._serve, name="rankmesh-agents", daemon=True)
        self._thread.start()

    @property
    def refused(self) -> int:
        """How many connections did not show that they have the keys."""
        return self._server.refused

    def close(self) -> None:
        """Dismiss all agents, and listen no more."""
        self._open = False
        self._server.wake()
        self._thread.join()
        self._streams.close()

    def _opened_streams(self, address: str) -> StreamListener:
        try:
            return StreamListener(address)
        except OSError:
            self._server.close()
            raise

    def _serve(self) -> None:
        try:
            while self._open:
                self._turn()
            for peer in self._agents:
                self._server.send(peer, AgentDismissed())
        finally:
            self._server.close()
            for agent in self._agents.values():
                agent.end("the orchestrator was closed")
            for agent in self._agents.values():
                agent.join()

    def _turn(self) -> None:
        messages, shaken = self._server.receive(max(0.0, self._next_look - time.monotonic()))
        for peer, message in messages:
            if isinstance(message, AgentJoin) and peer not in self._agents:
                self._server.send(peer, self._answer(peer, message))
        now = time.monotonic()
        if shaken:
            self._next_look = min(self._next_look, now + _SETTLE)
        if now >= self._next_look:
            self._next_look = now + self._settings.host_timeout / 4
            self._look()

    def _look(self) -> None:
        """End the agents whose connections are gone, and have the others free weights."""
        for peer, agent in list(self._agents.items()):
            if agent.lost or not self._server.send(peer, Beat()):
                del self._agents[peer]
                self._streams.forget(self._tokens.pop(peer))
                agent.end()
            elif agent.weights.stale:
                self._loop.call_soon(agent.weights.drop_freed)

    def _answer(self, peer: CurvePeer, join: AgentJoin) -> Message:
        """Welcome an agent, or give the reason for a refusal."""
        mine = version("rankmesh")
        if join.version != mine:
            text = (
                f"the orchestrator has Rankmesh {mine}, and the agent {join.name} on "
                f"{join.host} has {join.version}: install the same version on all hosts."
            )
            return Failed("UsageError", text)
        address = self._server.address_of(peer)
        if not address:
            return Failed("RankFailed", "the connection has ended")
        self._server.trust(peer)
        clear = self._settings.trusts(address)
        agent = RemoteAgent(join, self._loop, self._on_lost, address)
        self._agents[peer] = agent
        ranks = RankConnections(self._streams, clear, self._loop)
        invitation = self._streams.invite(clear, partial(self._begin, agent, ranks))
        self._tokens[peer] = invitation.token
        return AgentWelcome(invitation, self._streams.local)

    def _begin(
        self, agent: RemoteAgent, ranks: RankConnections, sock: socket.socket, keys: SealKeys
    ) -> None:
        if sock.family == socket.AF_UNIX:
            agent.begin(sock, keys, True, holders=ArenaHolders(self._arena, sock))
        else:
            prepare(sock, self._settings.host_timeout)
            agent.begin(sock, keys, ranks.clear, ranks=ranks)
        _LOG.info("%s has joined, with room for %d ranks", agent, agent.joined.ranks)
        self._loop.call_soon(partial(self._on_joined, agent))
