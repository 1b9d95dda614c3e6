"""Model offer: an orchestrator's models as its endpoint offers them to other programs."""

from __future__ import annotations

from collections.abc import Callable

from ..comm.errors import UsageError
from .config.published_model import published_form
from .endpoint.messages import ModelCard, VersionCard
from .model_table import ModelTable
from .replica.rank_status import Status
from .requests.metrics import ModelMetrics
from .scheduling.request_client import RequestClient
from .served import Served
from .status import status_of


class ModelOffer:
    """The models of a table. See OfferedModels."""

    def __init__(self, table: ModelTable) -> None:
        self._table = table

    def client(self, model: str, version: int | None) -> RequestClient:
        """See OfferedModels."""
        served = self._table.find(model, version)
        if served.client is None:
            raise UsageError(f"{served.name} generates text, in the orchestrator's program only.")
        return served.client

    def cards(self) -> tuple[ModelCard, ...]:
        """See OfferedModels."""
        return tuple(
            ModelCard(name, one.current.version, tuple(map(_version_card, one.all.values())))
            for name, one in self._table.serving.items()
            if one.current.client is not None  # a decoder has none
        )

    def status(self) -> Status:
        """See OfferedModels."""
        table = self._table
        return status_of(table.serving.values(), table.living)

    def metrics(self) -> dict[str, ModelMetrics]:
        """See OfferedModels."""
        return {name: one.current.metrics() for name, one in self._table.serving.items()}

    def watch(self, changed: Callable[[], None]) -> None:
        """See OfferedModels."""
        self._table.changed = changed


def _version_card(model: Served) -> VersionCard:
    assert model.client is not None  # what takes requests has started
    report = model.client.interface.report
    return VersionCard(
        model.version,
        report.path,
        report.inputs,
        report.outputs,
        dict(model.labels),
        model.client.timeout,
        published_form(model.given),
    )
