"""Server loop: listens, starts the models, answers until TERM, drains, and ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ....comm.errors import UsageError
from ...orchestrator import Orchestrator
from ..access.gate import Gate
from ..access.guarded_application import GuardedApplication
from ..configuration import Configuration
from ..faults import NotStarted
from ..grpc.settings import GrpcSettings
from ..http.connection import HttpConnection
from ..http.connections import OpenConnections
from ..http.exchange import Application
from ..http.hosts import HostCheck
from ..http.tls_listener import TlsListener
from ..management_settings import ManagementSettings
from ..observation.access_log import AccessLog
from ..observation.activity import ServerActivity
from ..observation.observed_application import ObservedApplication
from ..observation.request_observer import RequestObserver
from ..observation.tracing import configured_tracer
from ..rest.application import RestApplication
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from .exposure import warn_if_exposed
from .server_tls import ServerTls
from .settings import ServerSettings

if TYPE_CHECKING:
    from ..grpc.server import GrpcServer

_LOG = logging.getLogger("rankmesh.server")
Started = Callable[[int, int | None], None]
Starts = Callable[[], Orchestrator]
Listener = asyncio.Server | TlsListener


class ServerLoop:
    """One server of an orchestrator's models, in one asyncio loop."""

    def __init__(
        self,
        settings: ServerSettings,
        version: str,
        listening: Started | None = None,
        configuration: Configuration | None = None,
    ) -> None:
        """`listening` is called with the ports of HTTP and gRPC once clients can connect;
        `configuration` has the models; without it they are the orchestrator's.
        """
        self._settings = settings
        self._version = version
        self._listening = listening
        self._ending = asyncio.Event()
        self._state = ServerState(
            ManagementSettings(
                settings.management, settings.weights_folder, settings.drain_timeout
            ),
            configuration,
        )
        self._configuration = configuration
        self._reloading: asyncio.Task[None] | None = None
        self._regions = ClientRegions(settings.shared_memory_prefixes)
        self._grpc: GrpcServer | None = None
        self._tls = None if settings.tls is None else ServerTls(settings.tls)
        self._gate = Gate.wanted(settings.access)
        self._log = AccessLog.wanted(settings.access_log)
        tracing = configured_tracer(version, "http" if self._tls is None else "https")
        self._observer = RequestObserver.wanted(self._log, tracing)

    @property
    def reloads(self) -> bool:
        """Whether there are files that `reload` reads again."""
        read = (self._tls, self._gate, self._log, self._configuration)
        return any(one is not None for one in read)

    def reload(self) -> None:
        """Read the files of TLS and of tokens again, for what comes from here on, and the
        configuration, whose models become those of the server; in the loop.
        """
        if self._tls is not None:
            self._tls.reload()
        if self._gate is not None:
            self._gate.reload()
        if self._log is not None:
            self._log.reopen()
        if self._configuration is None:
            return
        try:
            repository = self._state.repository()
        except NotStarted:
            _LOG.warning("the configuration is not read again: the models are still starting")
            return
        self._reloading = asyncio.create_task(repository.configure())

    def stop(self) -> None:
        """Drain and end; in the loop."""
        self._ending.set()

    async def run(self, start: Orchestrator | Starts) -> None:
        """Serve until `stop`; the orchestrator that is given, or that `start` makes, is drained,
        and not closed.

        Clients can connect while it starts, and are told so. Raises what `start` raises.
        """
        if isinstance(start, Orchestrator):
            self._state.start(start)
        settings = self._settings
        limits = settings.limits
        application = RestApplication(self._state, self._version, limits.body_bytes, self._regions)
        warn_if_exposed(settings)
        connections = OpenConnections(
            self._guarded(application),
            limits,
            HostCheck(settings.allowed_hosts),
            None if self._observer is None else self._observer.refused,
            application.repeated if self._gate is None and self._observer is None else None,
        )
        self._state.activity = partial(self._activity, connections)
        try:
            listener = await self._listen(connections)
            try:
                grpc_port = await self._listen_grpc()
                if self._listening is not None:
                    self._listening(listener.sockets[0].getsockname()[1], grpc_port)
                await self._serve(start, listener, connections)
            finally:
                listener.close()
        finally:
            connections.close()
            if self._grpc is not None:
                await self._grpc.close()
            self._state.close()
            if self._log is not None:
                self._log.close()

    def _activity(self, connections: OpenConnections) -> ServerActivity:
        """Counts of both protocols."""
        if self._grpc is None:
            return ServerActivity(len(connections), connections.responses)
        grpc = self._grpc
        return ServerActivity(len(connections), connections.responses, grpc.streams, grpc.answers)

    def _guarded(self, application: Application) -> Application:
        """The application behind the gate and the observer, where there are such."""
        if self._gate is not None:
            application = GuardedApplication(application, self._gate)
        if self._observer is not None:
            application = ObservedApplication(application, self._observer)
        return application

    async def _serve(
        self,
        start: Orchestrator | Starts,
        listener: Listener,
        connections: OpenConnections,
    ) -> None:
        orchestrator = await self._started(start)
        if orchestrator is not None:
            if orchestrator is not start:
                self._state.start(orchestrator)
            await self._ending.wait()
            await self._drain(listener, connections, orchestrator)

    async def _listen(self, connections: OpenConnections) -> Listener:
        settings = self._settings
        try:
            listener = await self._listener(connections)
        except OSError as error:
            raise UsageError(
                f"port {settings.port} of {settings.host}: {error.strerror or error}. Choose "
                "another with --port."
            ) from None
        _LOG.info("listening on %s port %d", *listener.sockets[0].getsockname()[:2])
        return listener

    async def _listener(self, connections: OpenConnections) -> Listener:
        host, port = self._settings.host, self._settings.port
        if self._tls is not None:
            return await self._tls.listen(connections, host, port)
        return await connections.loop.create_server(
            lambda: HttpConnection(connections), host, port, backlog=1024
        )

    async def _listen_grpc(self) -> int | None:
        """The port of gRPC, None where it is not asked for."""
        settings, limits = self._settings, self._settings.limits
        if settings.grpc_port is None:
            return None
        from ..grpc.server import GrpcServer  # here: grpcio costs 0.4 s and 20 MB

        grpc = GrpcSettings(
            settings.host, settings.grpc_port, limits.body_bytes, limits.connections
        )
        credentials = None if self._tls is None else self._tls.credentials()
        self._grpc = GrpcServer(
            self._state, self._version, grpc, self._regions, credentials, self._gate, self._observer
        )
        return await self._grpc.start()

    async def _started(self, start: Orchestrator | Starts) -> Orchestrator | None:
        """The orchestrator once its ranks are ready; None where the server is to end before."""
        if isinstance(start, Orchestrator):
            return start
        loop = asyncio.get_running_loop()
        started = loop.create_future()
        thread = threading.Thread(
            target=_start, args=(start, started), name="rankmesh-start", daemon=True
        )
        thread.start()
        ending = loop.create_task(self._ending.wait())
        await asyncio.wait((started, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        return started.result() if started.done() else None

    async def _drain(
        self, listener: Listener, connections: OpenConnections, orchestrator: Orchestrator
    ) -> None:
        """Send clients elsewhere, answer what was accepted, and take no more."""
        self._state.draining = True
        _LOG.info("draining: %d connections are open", len(connections))
        await asyncio.sleep(self._settings.drain_delay)
        listener.close()
        drained = [connections.drain(self._settings.drain_timeout)]
        if self._grpc is not None:
            drained.append(self._grpc.drain(self._settings.drain_timeout))
        await asyncio.gather(*drained)
        await asyncio.to_thread(orchestrator.drain, self._settings.drain_timeout)


def _start(start: Starts, started: asyncio.Future[Orchestrator]) -> None:
    """Start the orchestrator, in a thread of its own, and tell the loop."""
    loop = started.get_loop()
    try:
        orchestrator = start()
    except BaseException as error:  # raised again where the server runs
        loop.call_soon_threadsafe(started.set_exception, error)
        return
    loop.call_soon_threadsafe(started.set_result, orchestrator)


async def serve_until_signal(server: ServerLoop, start: Orchestrator | Starts) -> None:
    """Run a server until TERM or INT, where this is the main thread."""
    if threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        if server.reloads:
            loop.add_signal_handler(signal.SIGHUP, server.reload)
    await server.run(start)
