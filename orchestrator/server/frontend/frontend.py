"""Frontend of a server: listens for HTTP and gRPC, and answers by the state that both share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..access.gate import Gate
from ..access.guarded_application import GuardedApplication
from ..access.rates import Rates
from ..forwarding.forwarder import Forwarder
from ..forwarding.forwarding_application import ForwardingApplication
from ..grpc.transport.settings import GrpcSettings
from ..http.acceptor import Acceptor
from ..http.connection import HttpConnection
from ..http.connection_counts import ConnectionCounts
from ..http.connections import OpenConnections
from ..http.exchange import Application
from ..http.hosts import HostCheck
from ..http.shared_listener import SharedListener
from ..http.tls_listener import TlsListener
from ..observation.access_log import AccessLog
from ..observation.activity import ServerActivity
from ..observation.observed_application import ObservedApplication
from ..observation.request_observer import RequestObserver
from ..observation.tracing import configured_tracer
from ..rest.application import RestApplication
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from .immediate_requests import ImmediateRequests
from .server_tls import ServerTls
from .settings import ServerSettings

if TYPE_CHECKING:
    from ..grpc.server import GrpcServer

_LOG = logging.getLogger("rankmesh.server")
_OBSERVED_LATER = 0.02
"""Seconds until requests that have ended are logged and traced."""

Listener = asyncio.Server | TlsListener | SharedListener


class Ports(NamedTuple):
    """The ports that clients connect to; without gRPC None."""

    http: int
    grpc: int | None


@dataclass(frozen=True, slots=True)
class SharedCounts:
    """Counts in memory that all processes of a server share."""

    rates: Rates
    connections: ConnectionCounts
    place: int
    """Of this process among them."""

    def ahead(self, connections: OpenConnections) -> bool:
        """Whether another process has fewer connections than this one."""
        return self.connections.ahead(self.place, len(connections))


class Frontend:
    """Both protocols of one process, in its asyncio loop."""

    def __init__(
        self,
        settings: ServerSettings,
        version: str,
        state: ServerState,
        regions: ClientRegions,
        forwarder: Forwarder | None = None,
        shared: SharedCounts | None = None,
    ) -> None:
        """`version` of the server, and `regions` of its clients.

        With a `forwarder` only requests to models are answered here, and `shared` counts for all
        processes. Raises UsageError where files of TLS or tokens are wrong.
        """
        self._settings = settings
        self._version = version
        self._state = state
        self._regions = regions
        self._forwarder = forwarder
        self._tls = None if settings.tls is None else ServerTls(settings.tls)
        self._gate = Gate.wanted(settings.access, None if shared is None else shared.rates)
        self._log = AccessLog.wanted(settings.access_log)
        tracing = configured_tracer(version, "http" if self._tls is None else "https")
        later = partial(asyncio.get_running_loop().call_later, _OBSERVED_LATER)
        self._observer = RequestObserver.wanted(self._log, tracing, later)
        self._shared = shared
        self._listeners: list[Listener] = []
        self._connections: OpenConnections | None = None
        self._grpc: GrpcServer | None = None

    @property
    def reloads(self) -> bool:
        """Whether there are files that `reload` reads again."""
        return any(one is not None for one in (self._tls, self._gate, self._log))

    def reload(self) -> None:
        """Read the files of TLS and of tokens again, for what comes from here on."""
        if self._tls is not None:
            self._tls.reload()
        if self._gate is not None:
            self._gate.reload()
        if self._observer is not None:
            self._observer.flush()
        if self._log is not None:
            self._log.reopen()

    async def listen(self, sockets: Sequence[socket.socket]) -> Ports:
        """Take connections: of HTTP at these sockets, which are closed at the end."""
        connections = self._connections = self._opened()
        self._state.activity = self.activity
        for each in sockets:
            self._listeners.append(await self._listener(connections, each))
            _LOG.info("listening on %s port %d", *each.getsockname()[:2])
        return Ports(sockets[0].getsockname()[1], await self._listen_grpc())

    def activity(self) -> ServerActivity:
        """Counts of both protocols."""
        connections, grpc = self._connections, self._grpc
        assert connections is not None  # nothing asks before it listens
        most = self._settings.limits.connections
        found = ServerActivity(len(connections), connections.responses, limits={"http": most})
        if grpc is None:
            return found
        both = {"http": most, "grpc": most}
        return replace(found, streams=grpc.streams, answers=grpc.answers, limits=both)

    async def drain(self) -> None:
        """Take no more connections, and answer what was accepted."""
        seconds = self._settings.drain_timeout
        self._stop_listening()
        drained = []
        if self._connections is not None:
            _LOG.info("draining: %d connections are open", len(self._connections))
            drained.append(self._connections.drain(seconds))
        if self._grpc is not None:
            drained.append(self._grpc.drain(seconds))
        await asyncio.gather(*drained)

    async def close(self) -> None:
        """End all connections at once."""
        self._stop_listening()
        if self._connections is not None:
            self._connections.close()
        if self._grpc is not None:
            await self._grpc.close()
        if self._observer is not None:
            self._observer.flush()
        if self._log is not None:
            self._log.close()

    def _opened(self) -> OpenConnections:
        settings = self._settings
        limits = settings.limits
        pages = RestApplication(
            self._state,
            self._version,
            limits.body_bytes,
            self._regions,
            settings.strict_json,
        )
        return OpenConnections(
            self._application(pages),
            limits,
            HostCheck(settings.allowed_hosts),
            None if self._observer is None else self._observer.refused,
            ImmediateRequests(pages.repeated, self._gate, self._observer),
        )

    def _application(self, application: Application) -> Application:
        """The application behind the gate and the observer, where there are such."""
        if self._forwarder is not None:
            application = ForwardingApplication(application, self._forwarder, self._regions.offered)
        if self._gate is not None:
            application = GuardedApplication(application, self._gate)
        if self._observer is not None:
            application = ObservedApplication(application, self._observer)
        return application

    async def _listener(self, connections: OpenConnections, sock: socket.socket) -> Listener:
        shared = self._shared
        ahead = None if shared is None else partial(shared.ahead, connections)
        acceptor = Acceptor(sock, connections.loop, ahead)
        if self._tls is not None:
            return self._tls.listen(connections, sock, acceptor)
        if shared is not None:
            return SharedListener(connections, sock, acceptor)
        return await connections.loop.create_server(partial(HttpConnection, connections), sock=sock)

    async def _listen_grpc(self) -> int | None:
        """The port of gRPC, None where it is not asked for."""
        settings, limits = self._settings, self._settings.limits
        if settings.grpc_port is None:
            return None
        from ..grpc.server import GrpcServer  # here: grpcio costs 0.4 s and 20 MB

        grpc = GrpcSettings(
            settings.host,
            settings.grpc_port,
            limits.body_bytes,
            limits.connections,
            handshake_seconds=limits.header_seconds,
            idle_seconds=limits.idle_seconds,
            shared=self._forwarder is not None,
        )
        self._grpc = GrpcServer(
            self._state,
            self._version,
            grpc,
            self._regions,
            None if self._tls is None else self._tls.credentials(),
            self._gate,
            self._observer,
            self._forwarder,
        )
        return await self._grpc.start()

    def _stop_listening(self) -> None:
        for one in self._listeners:
            one.close()
        self._listeners.clear()
