"""State of the server: its service once the models have started, until it drains."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Protocol

import psutil

from ...comm.errors import Draining
from ..orchestrator import Orchestrator
from .catalog import ModelDescription
from .configuration import Configuration
from .faults import ManagementOff, NotStarted
from .health import ModelHealth
from .inference import InferenceService
from .management_settings import ManagementSettings
from .model_repository import ModelRepository, RepositoryEntry
from .observation.activity import ServerActivity
from .observation.server_observation import ModelObservation, ServerObservation
from .page.overview import Overview, model_overviews
from .steps import StepThreads


class Readiness(Protocol):
    """Tells which models answer."""

    def ready(self, model: str, version: int | None = None) -> bool:
        """Whether a request to a version of a model, by default the current one, would be
        answered now.
        """

    def all_ready(self) -> bool:
        """Whether that is so for every model that is loaded."""


class ServerState:
    """State that all protocols share, in one asyncio loop."""

    def __init__(
        self,
        management: ManagementSettings | None = None,
        configuration: Configuration | None = None,
    ) -> None:
        """Without `management` clients cannot manage models; without `configuration` there are
        those of the orchestrator.
        """
        self.draining = False
        """Whether clients are told to go elsewhere; requests are still answered."""

        self.activity: Callable[[], ServerActivity] = ServerActivity
        """Counts of the server; zero where another server has the connections."""

        self.threads = StepThreads()
        """Threads for what would hold up the loop."""

        self._started = time.time()
        self._service: InferenceService | None = None
        self._health: Readiness | None = None
        self._management = management or ManagementSettings()
        self._configuration = configuration
        self._repository: ModelRepository | None = None

    def start(self, orchestrator: Orchestrator) -> None:
        """Answer requests by `orchestrator` from here on; in the loop that serves."""
        self._repository = ModelRepository(orchestrator, self._management, self._configuration)
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        self.serve(service, ModelHealth(orchestrator))

    def serve(self, service: InferenceService, health: Readiness) -> None:
        """Answer requests by a service from here on, whose models are as ready as `health` says."""
        self._service = service
        self._health = health

    def close(self) -> None:
        """Answer no more; what is still done for requests is given up."""
        self.threads.close()
        if self._service is not None:
            self._service.close()

    def service(self) -> InferenceService:
        """The service; raises NotStarted where there is none yet."""
        if self._service is None:
            raise NotStarted("the models are still starting: try again soon.")
        return self._service

    def repository(self) -> ModelRepository:
        """The models of the configuration; raises NotStarted where none is loaded yet."""
        self.service()
        assert self._repository is not None
        return self._repository

    def manager(self) -> ModelRepository:
        """The repository, for calls of clients that change models: no other way leads them to it.

        Raises ManagementOff, Draining, NotStarted.
        """
        if not self._management.offered:
            raise ManagementOff(
                "the management of models is off: the server's option --management allows it."
            )
        self.require_open()
        return self.repository()

    def index(self, ready_only: bool) -> list[RepositoryEntry]:
        """The models of the repository with their states."""
        found = self.repository().entries(self.ready)
        return [one for one in found if one.state == "READY" or not ready_only]

    def ready(self, model: str | None = None, version: int | None = None) -> bool:
        """Whether a request to a version of a model, by default the current one, would be answered
        now; without `model`, to each of them.
        """
        if self._health is None or self.draining:
            return False
        return self._health.all_ready() if model is None else self._health.ready(model, version)

    def ready_as_asked(self, model: ModelDescription) -> bool:
        """Whether that is so for the version that a request has named, or else for the current
        one.
        """
        return self.ready(model.name, int(model.version) if model.named else None)

    def answering(self) -> list[tuple[str, int]]:
        """The versions of models that answer requests now."""
        if self._service is None:
            return []
        versions = self._service.catalog.versions
        found = [(one.name, int(one.version)) for one in versions]
        return [one for one in found if self.ready(*one)]

    def observation(self) -> ServerObservation:
        """A look at all models and ranks now. Raises NotStarted."""
        service = self.service()
        models = [
            ModelObservation(
                one.name,
                one.version,
                self.ready(one.name, int(one.version)),
                service.metrics(one),
                service.batching(one),
            )
            for one in service.catalog.versions
        ]
        status = service.status()
        return ServerObservation(
            models,
            status.ranks,
            service.shared_memory(),
            self.activity(),
            status.state,
            status.outages,
        )

    def overview(self, version: str) -> Overview:
        """The document of the page, of a server of this `version`."""
        seen = None if self._service is None else self.observation()
        state = "starting" if seen is None else seen.state
        return Overview(
            version,
            time.time(),
            self._started,
            "draining" if self.draining else state,
            self.ready(),
            len(os.sched_getaffinity(0)),
            psutil.cpu_times().idle,
            self.activity().connections,
            [] if seen is None else model_overviews(seen),
            [] if seen is None else list(seen.outages),
        )

    def models(self) -> tuple[str, ...]:
        """The names of all models; none before they have started."""
        return () if self._service is None else (*self._service.catalog.models,)

    def require_open(self) -> None:
        """Raise Draining where the server is about to end."""
        if self.draining:
            raise Draining("the server is about to end: send this request to another.")
