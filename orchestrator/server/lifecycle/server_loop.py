"""Server loop: listens, starts the models, answers until TERM, drains, and ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ...orchestrator import Orchestrator
from ..configuration import Configuration
from ..faults import NotStarted
from ..frontend.exposure import warn_if_exposed
from ..frontend.frontend import Frontend
from ..frontend.listening_sockets import listening_sockets
from ..frontend.settings import ServerSettings
from ..management_settings import ManagementSettings
from ..processes.server_processes import ServerProcesses
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions

T = TypeVar("T")
_LOG = logging.getLogger("rankmesh.server")
Started = Callable[[int, int | None], None]
Starts = Callable[[], Orchestrator]


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
        regions = ClientRegions(settings.shared_memory_prefixes)
        kind = Frontend if settings.processes == 1 else ServerProcesses
        self._frontend: Frontend | ServerProcesses = kind(settings, version, self._state, regions)

    @property
    def reloads(self) -> bool:
        """Whether there are files that `reload` reads again."""
        return self._frontend.reloads or self._configuration is not None

    def reload(self) -> None:
        """Read the files of TLS and of tokens again, for what comes from here on, and the
        configuration, whose models become those of the server; in the loop.
        """
        self._frontend.reload()
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
        settings = self._settings
        warn_if_exposed(settings)
        try:
            if isinstance(start, Orchestrator):
                self._begin(start)
            sockets = listening_sockets(settings.host, settings.port)
            ports = await self._frontend.listen(sockets)
            if self._listening is not None:
                self._listening(*ports)
            await self._serve(start)
        finally:
            await self._frontend.close()
            self._state.close()

    def _begin(self, orchestrator: Orchestrator) -> None:
        """Answer requests by an orchestrator, which has started."""
        self._state.start(orchestrator)
        if isinstance(self._frontend, ServerProcesses):
            self._frontend.admit(orchestrator)

    async def _serve(self, start: Orchestrator | Starts) -> None:
        orchestrator = await self._started(start)
        if orchestrator is not None:
            if orchestrator is not start:
                self._begin(orchestrator)
            await self._ending.wait()
            await self._drain(orchestrator)

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

    async def _drain(self, orchestrator: Orchestrator) -> None:
        """Send clients elsewhere, answer what was accepted, and take no more."""
        self._state.draining = True
        await asyncio.sleep(self._settings.drain_delay)
        until = asyncio.get_running_loop().time() + self._settings.drain_timeout
        await self._frontend.drain()
        left = max(0.0, until - asyncio.get_running_loop().time())
        await asyncio.to_thread(orchestrator.drain, left)


def _start(start: Starts, started: asyncio.Future[Orchestrator]) -> None:
    """Start the orchestrator, in a thread of its own, and tell the loop."""
    try:
        orchestrator = start()
    except BaseException as error:  # raised again where the server runs
        _tell(started, started.set_exception, error)
        return
    _tell(started, started.set_result, orchestrator)


def _tell(started: asyncio.Future[Orchestrator], tell: Callable[[T], None], about: T) -> None:
    with suppress(RuntimeError):  # the loop is closed: TERM came while the models started
        started.get_loop().call_soon_threadsafe(tell, about)


async def serve_until_signal(server: ServerLoop, start: Orchestrator | Starts) -> None:
    """Run a server until TERM or INT, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        await server.run(start)
        return
    loop = asyncio.get_running_loop()
    _handled.update({signal.SIGTERM: server.stop, signal.SIGINT: server.stop})
    if server.reloads:
        _handled[signal.SIGHUP] = server.reload
    try:
        for number, act in _handled.items():
            loop.add_signal_handler(number, act)
        await server.run(start)
    finally:
        _handled.clear()


_handled: dict[signal.Signals, Callable[[], None]] = {}


def _leave_to_the_parent() -> None:
    """Let signals end a forked child: the loop's handlers there would wake the parent alone."""
    if _handled:
        signal.set_wakeup_fd(-1)
    for number in _handled:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


os.register_at_fork(after_in_child=_leave_to_the_parent)
