"""Served chain: one version of a chain, from its load to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..comm.errors import Closed, UsageError
from .chains.chain_client import ChainClient
from .chains.chain_plan import ChainPlanner, ModelTensors, step_models
from .chains.chain_run import StepClients
from .chains.step_shapes import tensors_of
from .config.chain_settings import ChainSettings
from .config.class_labels import ClassLabels, class_labels_of, require_outputs
from .requests.journal import Journal
from .requests.metrics import ModelMetrics
from .scheduling.request_client import RequestClient
from .served import Served
from .served_model import SharedParts
from .weights.weight_updates import WeightUpdates


class StepModels(StepClients, Protocol):
    """The models of an orchestrator, as far as a chain needs them."""

    def find(self, model: str | None, version: int | None = None) -> Served:
        """A version of a model, None: its current one. Raises UsageError."""


class ServedChain(Served):
    """One version of a chain. It has no ranks: those of its steps' models answer."""

    def __init__(
        self, version: int, settings: ChainSettings, models: StepModels, parts: SharedParts
    ) -> None:
        """The models of all steps take requests.

        Raises UsageError, naming the step, where one is not loaded, or does not fit.
        """
        super().__init__(version, settings, class_labels_of(settings))
        self._plan = plan = ChainPlanner(settings, _tensors(settings, models.client)).plan()
        require_outputs(self.label, self._labels, plan.outputs)
        self._models = models
        self.journal = Journal(self.label, version)
        self._settings = settings
        self._chain = self.client = ChainClient(
            settings, plan, models, self.journal, parts.arena, parts.slots, parts.loop
        )

    @property
    def labels(self) -> ClassLabels:
        """See Served.labels: an output without labels of its own has those of the step that gives
        it.
        """
        outputs = {spec.name for spec in self._plan.outputs}
        found: ClassLabels = {}
        for step in self._plan.steps:
            labels = self._models.find(step.model, step.version).labels
            for name, tensor in step.outputs.items():
                if name in labels and tensor in outputs:
                    found[tensor] = labels[name]
        return {**found, **self._labels}

    @property
    def name(self) -> str:
        """See Served.name."""
        return f"chain '{self.label}' version {self.version}"

    @property
    def steps(self) -> tuple[tuple[str, int | None], ...]:
        """See Served.steps."""
        return step_models(self._settings)

    def require_steps(self, find: Callable[[str, int | None], Served]) -> None:
        """See Served.require_steps. The tensors of the chain have to stay as well."""

        def client(model: str, version: int | None) -> RequestClient:
            found = find(model, version).client
            assert found is not None  # what takes requests has started
            return found

        new = ChainPlanner(self._settings, _tensors(self._settings, client)).plan()
        self._plan.require_kept(self.label, new)

    @property
    def updates(self) -> WeightUpdates:
        """See Served.updates."""
        models = ", ".join(dict.fromkeys(name for name, _ in self.steps))
        raise UsageError(f"chain '{self.label}' has no weights: its steps are {models}.")

    @property
    def waiting(self) -> int:
        """See Served.waiting: they wait in the queues of the models."""
        return 0

    def metrics(self) -> ModelMetrics:
        """See Served.metrics."""
        return {
            **self._chain.counters.snapshot(),
            "queue_depth": self.waiting,
            "running": len(self._chain.replies),
            "weights_version": 0,
        }

    def drain(self, subject: str) -> None:
        """See Served.drain; the models go on with the steps of requests under way."""
        self._chain.admission.drain(subject)

    def wait_idle(self, seconds: float | None) -> bool:
        """See Served.wait_idle."""
        return self._chain.replies.wait_idle(seconds)

    def give_up(self, text: str) -> None:
        """See Served.give_up."""
        self._chain.admission.close(True)
        self._chain.give_up(Closed(text))

    def release(self) -> None:
        """See Served.release."""


def _tensors(
    settings: ChainSettings, client: Callable[[str, int | None], RequestClient]
) -> list[ModelTensors]:
    """The inputs and outputs of each step's model."""
    found = []
    for at, step in enumerate(settings.links, 1):
        try:
            interface = client(step.model, step.version).interface
        except UsageError as error:
            raise UsageError(f"chain '{settings.name}', step {at}: {error}") from None
        found.append(tensors_of(interface))
    return found
