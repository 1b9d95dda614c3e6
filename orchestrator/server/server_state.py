"""State of the server: its service once the models have started, until it drains."""

from __future__ import annotations

import asyncio

from ...comm.errors import Draining
from ..orchestrator import Orchestrator
from .faults import NotStarted
from .health import ModelHealth
from .inference import InferenceService


class ServerState:
    """State that all protocols share, in one asyncio loop."""

    def __init__(self) -> None:
        self.draining = False
        """Whether clients are told to go elsewhere; requests are still answered."""

        self._service: InferenceService | None = None
        self._health: ModelHealth | None = None

    def start(self, orchestrator: Orchestrator) -> None:
        """Answer requests by `orchestrator` from here on; in the loop that serves."""
        self._service = InferenceService(orchestrator, asyncio.get_running_loop())
        self._health = ModelHealth(orchestrator)

    def close(self) -> None:
        """Answer no more; no request is under way."""
        if self._service is not None:
            self._service.close()

    def service(self) -> InferenceService:
        """The service; raises NotStarted where there is none yet."""
        if self._service is None:
            raise NotStarted("the models are still starting: try again soon.")
        return self._service

    def ready(self, model: str | None = None) -> bool:
        """Whether a request to a model, by default to each of them, would be answered now."""
        if self._health is None or self.draining:
            return False
        return self._health.all_ready() if model is None else self._health.ready(model)

    def models(self) -> tuple[str, ...]:
        """The names of all models; none before they have started."""
        return () if self._service is None else (*self._service.catalog.models,)

    def require_open(self) -> None:
        """Raise Draining where the server is about to end."""
        if self.draining:
            raise Draining("the server is about to end: send this request to another.")
