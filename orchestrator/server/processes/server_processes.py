"""Server processes: the children that answer the clients of one orchestrator beside each other."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....comm.errors import UsageError
from ....comm.host.process_identity import is_stopped
from ...orchestrator import Orchestrator
from ..access.gate import Gate
from ..access.shared_rates import SharedRates
from ..frontend.frontend import Ports
from ..frontend.server_tls import ServerTls
from ..frontend.settings import ServerSettings
from ..http.connection_counts import ConnectionCounts
from ..observation.activity import ServerActivity
from ..rest.application import RestApplication
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from .forwarded_requests import ForwardedRequests
from .messages import Activity, Begin, Drain, FromProcess, Health, Listening, Reload
from .reserved_port import reserved_port
from .restarts import RestartDelays
from .server_process import ServerProcess

if TYPE_CHECKING:
    from ..grpc.calls import CallHandler

_LOG = logging.getLogger("rankmesh.server")
_PERIOD = 0.2
"""Seconds between two words to the processes about the health of models."""

_LEAVING = 5.0
"""Seconds that a process has for its end, besides those for its requests."""


class ServerProcesses:
    """The processes of one server, in the place of a Frontend of this process."""

    def __init__(
        self, settings: ServerSettings, version: str, state: ServerState, regions: ClientRegions
    ) -> None:
        """`state` and `regions` are those of all processes; `version` is the server's.

        Raises UsageError where files of TLS or tokens are wrong.
        """
        if settings.tls is not None:
            ServerTls(settings.tls)
        Gate.wanted(settings.access)
        self._settings = settings
        self._version = version
        self._state = state
        self._regions = regions
        self._sockets: Sequence[socket.socket] = ()
        self._guard: socket.socket | None = None
        self._shared = [SharedRates.create(), ConnectionCounts.create()]
        self._counts = ConnectionCounts(self._shared[1])
        self._living: list[ServerProcess] = []
        self._gone = ServerActivity()
        self._delays = RestartDelays()
        self._orchestrator: Orchestrator | None = None
        self._requests: ForwardedRequests | None = None
        self._health: asyncio.TimerHandle | None = None
        self._draining = False

    @property
    def reloads(self) -> bool:
        """Whether the processes have files that `reload` reads again."""
        return True

    def reload(self) -> None:
        """Have all processes read the files of TLS and of tokens again."""
        for process in self._living:
            process.send(Reload())

    async def listen(self, sockets: Sequence[socket.socket]) -> Ports:
        """Start all processes, and wait until each takes connections at these sockets, and at the
        port of gRPC.

        Raises UsageError where one cannot.
        """
        self._sockets = sockets
        self._state.activity = self.activity
        handlers: dict[str, CallHandler] = {}
        if self._settings.grpc_port is not None:
            from ..grpc.server import unary_handlers  # here: grpcio costs 0.4 s and 20 MB

            self._guard = reserved_port(self._settings.host, self._settings.grpc_port)
            handlers = unary_handlers(self._state, self._version, self._regions)
        limit = self._settings.limits.body_bytes
        pages = RestApplication(
            self._state,
            self._version,
            limit,
            self._regions,
            self._settings.strict_json,
        )
        self._requests = ForwardedRequests(pages, handlers, self._tell_health)
        for place in range(self._settings.processes):
            self._start(place)
        for process in list(self._living):
            told = await process.listening
            if told.error:
                raise UsageError(told.error)
        self._tell_regularly()
        port = None if self._guard is None else self._guard.getsockname()[1]
        return Ports(sockets[0].getsockname()[1], port)

    def admit(self, orchestrator: Orchestrator) -> None:
        """Have the processes send their requests to an orchestrator, which has started."""
        self._orchestrator = orchestrator
        for process in self._living:
            orchestrator.admit(process.endpoint.dup())

    def activity(self) -> ServerActivity:
        """The counts of all processes, those that have ended included."""
        found = self._gone
        for process in self._living:
            found = found.plus(process.activity)
        return replace(found, processes=len(self._living), restarts=self._delays.count)

    async def drain(self) -> None:
        """Take no more connections; each process answers what it has accepted, and ends.

        One that is stopped has no longer than its requests have.
        """
        self._draining = True
        self._close_sockets()
        for process in self._living:
            process.send(Drain())
        await _ended(self._living, self._settings.drain_timeout)
        stopped = [one for one in self._living if is_stopped(one.pid)]
        for process in stopped:
            _LOG.warning(
                "server process %d is stopped by a signal: it is killed, its open requests are "
                "cancelled",
                process.pid,
            )
        await _ended([one for one in self._living if one not in stopped], _LEAVING)

    async def close(self) -> None:
        """End all processes at once."""
        self._draining = True
        self._close_sockets()
        if self._health is not None:
            self._health.cancel()
        for process in list(self._living):
            process.kill()
            await process.over.wait()
        if self._requests is not None:
            self._requests.close()
        while self._shared:
            os.close(self._shared.pop())

    def _start(self, place: int) -> None:
        settings = self._settings
        if self._guard is not None:
            settings = replace(settings, grpc_port=self._guard.getsockname()[1])
        begin = Begin(settings, place, os.getpid(), self._orchestrator is not None)
        files = [*self._shared, *(one.fileno() for one in self._sockets)]
        process = ServerProcess(begin, files, self._receive, self._ended)
        self._living.append(process)
        if self._orchestrator is not None:
            self._orchestrator.admit(process.endpoint.dup())

    def _ended(self, process: ServerProcess) -> None:
        """A process has ended: another one takes its place, unless all are to end."""
        self._living.remove(process)
        self._counts.leave(process.place)
        self._gone = self._gone.plus(process.activity.ended())
        if self._requests is not None:
            self._requests.abandon(process)
        if self._draining:
            return
        delay = self._delays.next()
        if delay is None:
            _LOG.error(
                "server process %d %s: it is not started again, as too many have ended in a "
                "minute; %d are left",
                process.pid,
                process.epitaph,
                len(self._living),
            )
            return
        _LOG.warning(
            "server process %d %s: another one starts in %.2g s, its open requests are cancelled",
            process.pid,
            process.epitaph,
            delay,
        )
        asyncio.get_running_loop().call_later(delay, self._start_again, process.place)

    def _start_again(self, place: int) -> None:
        if self._draining:
            return
        try:
            self._start(place)
        except OSError as error:
            _LOG.error("no server process can be started: %s", error)
            asyncio.get_running_loop().call_later(1.0, self._start_again, place)

    def _receive(self, process: ServerProcess, message: FromProcess) -> None:
        match message:
            case Activity(_, last):
                for name, version, moment in last:
                    self._state.service().note_inference(name, version, moment)
            case Listening(_, error):
                if error:
                    _LOG.error("server process %d cannot listen: %s", process.pid, error)
            case _:
                assert self._requests is not None
                self._requests.take(process, message)

    def _tell_health(self) -> None:
        """Tell all processes which models answer."""
        state, answering = self._state, self._state.answering()
        models = [name for name in dict(answering) if state.ready(name)]
        health = Health(answering, models, state.ready(), state.draining)
        for process in self._living:
            process.send(health)

    def _tell_regularly(self) -> None:
        self._tell_health()
        loop = asyncio.get_running_loop()
        self._health = loop.call_later(_PERIOD, self._tell_regularly)

    def _close_sockets(self) -> None:
        for one in self._sockets:
            one.close()
        if self._guard is not None:
            self._guard.close()


async def _ended(processes: Sequence[ServerProcess], seconds: float) -> None:
    """Wait until all of the processes have ended, or the time is over."""
    ends = [asyncio.create_task(one.over.wait()) for one in processes]
    if ends:
        await asyncio.wait(ends, timeout=seconds)
