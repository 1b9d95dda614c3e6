"""Inference service: answers requests of any protocol, from an asyncio loop, by an orchestrator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...comm.arrays import Array
from ...comm.errors import Closed, Draining, InputError
from ...comm.request_memory.owned_arena import ArenaUse
from ..config.settings import ModelSettings
from ..orchestrator import Orchestrator
from ..replica.rank_status import Status
from ..requests.inputs import Buffers, ForeignBuffers, PackedInputs
from ..requests.loaded_versions import LoadedVersions, NotLoaded
from ..requests.metrics import ModelMetrics
from ..requests.request_inputs import Inputs
from ..scheduling.loop_caller import MODELS_OWN, LoopRequest
from .catalog import ModelCatalog, ModelDescription
from .model_source import AlikeRequests, ModelSource
from .observation.record import CURRENT
from .tensor_shapes import client_inputs, client_outputs, model_inputs, model_shapes
from .triton.conventions import priority_of, seconds_of


@dataclass(slots=True)
class InferenceRequest:
    """One request. `priority` and `timeout` (microseconds) are as Triton means them.

    `inputs` are arrays by name, or the buffers that they were written into.
    """

    model: ModelDescription
    inputs: Mapping[str, Array] | Buffers
    id: str = ""
    priority: object = 0
    timeout: object = 0
    outputs: Sequence[str] = ()
    """The outputs that are asked for, in this order; none: all of the model's."""


@dataclass(frozen=True, slots=True)
class InferenceAnswer:
    """The answer to a request: arrays by name, in the order that was asked for."""

    model: ModelDescription
    id: str
    outputs: dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedInference:
    """All of a request but the bytes of its inputs, checked for the models that are `loaded`."""

    model: ModelDescription
    loaded: Mapping[str, LoadedVersions]
    client: AlikeRequests
    inputs: PackedInputs
    seconds: float
    priority: int
    outputs: tuple[str, ...]


class InferenceService:
    """Answers requests in one asyncio loop; no thread waits for a request."""

    def __init__(self, models: ModelSource, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop; `models` have started, and stay while the service is used."""
        self.catalog = ModelCatalog(models)
        self._models = models
        self.versions = models.versions
        """The versions of all models; another mapping after each change."""

        self._caller = models.loop_caller(loop)
        self._last: dict[tuple[str, str], int] = {}

    def receives_in_place(self, model: ModelDescription) -> bool:
        """Whether `buffers` has memory for a model: not while it is being unloaded, nor for
        strings.
        """
        if model.has_strings:
            return False
        loaded = self._models.versions().get(model.name)
        return loaded is not None and int(model.version) in loaded.all

    async def buffers(
        self, model: ModelDescription, shapes: Mapping[str, tuple[int, ...]]
    ) -> Buffers:
        """Memory that ranks read, for all inputs of one request, by name. Raises OutOfMemory.

        The arrays have the shapes of the model, and as many elements as `shapes` of the client.
        """
        found = model_shapes(model, shapes)
        return await self._caller.buffers(model.name, int(model.version), found)

    def metrics(self, model: ModelDescription) -> ModelMetrics:
        """Metrics of all requests to one version of a model; other programs' too."""
        return self._own().version_metrics(model.name, int(model.version))

    def shared_memory(self) -> dict[str, ArenaUse]:
        """Memory that the ranks and this process share."""
        return self._own().shared_memory()

    def batching(self, model: ModelDescription) -> bool:
        """Whether the current version of a model runs several requests as one batch."""
        settings = self._own().settings().get(model.name)
        return isinstance(settings, ModelSettings) and settings.batching is not None

    def status(self) -> Status:
        """State of all models and ranks."""
        return self._own().status()

    def last_inference(self, model: ModelDescription) -> int:
        """When the last request to a version came: milliseconds since 1970, 0 for none so far."""
        return self._last.get((model.name, model.version), 0)

    def last_inferences(self) -> list[tuple[str, str, int]]:
        """All of these, with their models and versions."""
        return [(*model, moment) for model, moment in self._last.items()]

    def note_inference(self, name: str, version: str, moment: int) -> None:
        """Another process has had a request then."""
        self._last[name, version] = max(moment, self._last.get((name, version), 0))

    def close(self) -> None:
        """Take no more answers; no request is under way."""
        self._caller.close()

    def prepare(
        self,
        request: InferenceRequest,
        shapes: Mapping[str, tuple[int, ...]],
        starts: Mapping[str, int],
    ) -> PreparedInference:
        """The part of a request that later ones repeat. Their inputs have these `shapes`, and begin
        in their messages at these `starts`. Raises InputError; NotLoaded where the version is being
        unloaded.
        """
        model = request.model
        seconds = seconds_of(request.timeout)
        client = self._caller.client(model.name, int(model.version))
        return PreparedInference(
            model,
            self.versions(),
            client,
            client.packed(model_shapes(model, shapes), starts),
            MODELS_OWN if seconds is None else seconds,
            _priority(request),
            tuple(_wanted(request) or model.outputs),
        )

    def begin(
        self,
        request: LoopRequest,
        prepared: PreparedInference,
        inputs: Inputs,
        left: float | None = None,
    ) -> None:
        """Begin a request with its inputs, which has so many seconds `left` (None: no such limit);
        see LoopCaller. Raises QueueFull; Draining, Closed also where its version is being unloaded.
        """
        self._note(prepared.model)
        seconds = prepared.seconds
        if left is not None:
            seconds = left if seconds == MODELS_OWN else min(seconds, left)
        prepared.client.begin(request, inputs, seconds, prepared.priority)

    async def infer(self, request: InferenceRequest) -> InferenceAnswer:
        """The answer to a request. It is cancelled with the coroutine.

        A request whose version is unloaded or loaded again meanwhile goes to what there is now: to
        the current version, or to the one that it has named. Raises InputError, QueueFull,
        DeadlineExceeded and the other errors of `predict`.
        """
        while True:
            try:
                return await self._answered(request)
            except (NotLoaded, Draining, Closed, ForeignBuffers):
                model = request.model
                now = self.catalog.found(model.name, model.version if model.named else "")
                if now is None or now is model:
                    raise
            request = replace(request, model=now, inputs=client_inputs(model, request.inputs))

    def _note(self, model: ModelDescription) -> None:
        """A request comes now."""
        self._last[model.name, model.version] = time.time_ns() // 1_000_000

    def _own(self) -> Orchestrator:
        """The orchestrator, in its process."""
        assert isinstance(self._models, Orchestrator)  # others forward what asks for it
        return self._models

    async def _answered(self, request: InferenceRequest) -> InferenceAnswer:
        """The answer of the version that a request has."""
        model = request.model
        record = CURRENT.get()
        if record is not None:
            record.model = model.name
            record.version = model.version
            record.id = request.id or record.id
        wanted = _wanted(request)
        priority = _priority(request)
        seconds = seconds_of(request.timeout)
        inputs = model_inputs(model, request.inputs)
        self._note(model)
        found = await self._caller.call(
            model.name,
            inputs,
            MODELS_OWN if seconds is None else seconds,
            priority,
            int(model.version),
            None if record is None else record.ran,
        )
        assert isinstance(found, dict)
        outputs = found if wanted is None else {name: found[name] for name in wanted}
        return InferenceAnswer(model, request.id, client_outputs(model, outputs))


def _priority(request: InferenceRequest) -> int:
    """The orchestrator's priority; the levels of the model may replace that of the request."""
    given = priority_of(request.priority)
    levels = None if request.model.published is None else request.model.published.levels
    if levels is None:
        return given
    assert isinstance(request.priority, int)
    return priority_of(levels.level(request.priority))


def _wanted(request: InferenceRequest) -> Sequence[str] | None:
    """The outputs that a request asks for, None for all of the file.

    InputError for one that the model has not, or that is named twice.
    """
    names = request.outputs
    if not names:
        return None if request.model.published is None else tuple(request.model.outputs)
    for name in names:
        request.model.output(name)
    if len(set(names)) < len(names):
        raise InputError(
            f"{request.model.name}: got the outputs {list(names)}, expected each once."
        )
    return names
