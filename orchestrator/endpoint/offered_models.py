"""Offered models: describe what an endpoint needs of an orchestrator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..replica.rank_status import Status
from ..requests.metrics import ModelMetrics
from ..scheduling.request_client import RequestClient
from .messages import ModelCard


class OfferedModels(Protocol):
    """The models that take requests, as they are now."""

    def client(self, model: str, version: int | None) -> RequestClient:
        """The client of a model in a version, None for the current one. Raises NotLoaded."""

    def cards(self) -> tuple[ModelCard, ...]:
        """The descriptions of all models."""

    def status(self) -> Status:
        """The status of all models."""

    def metrics(self) -> dict[str, ModelMetrics]:
        """The metrics of all models in their current versions."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called after each change of the models, in any thread."""
