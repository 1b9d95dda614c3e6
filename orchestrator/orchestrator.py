"""Orchestrator: models on supervised ranks, for any number of requests from any thread."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, overload

from ..comm.serving.tensor_spec import TensorSpec
from .config.call_settings import check_call, models_of
from .config.settings import BatchingSettings, check_seconds
from .fleet import Fleet
from .requests.inputs import Buffers, are_by_name
from .requests.metrics import ModelMetrics
from .requests.request import Outputs, Result
from .scheduling.client import GivenInputs, ModelClient
from .scheduling.loop_caller import LoopCaller
from .status import Status, status_of
from .weights.payload import GivenWeights

Results = Literal["once", "all"]
_LEASED = 1 << 30
_MODELS = -1  # the model's own timeout


class Orchestrator:
    """Ranks that run one or more models; a context manager.

    It leaves no process, descriptor or segment behind. Every method may be called from any thread.
    Ranks never import the caller's program.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        ranks: int | None = None,
        *,
        replicas: int | None = None,
        rank_table: str | None = None,
        device: str | None = None,
        devices: Sequence[int] | None = None,
        threads: int | None = None,
        collectives: str | None = None,
        config: str | None = None,
        batching: BatchingSettings | None = None,
        timeout: float | None = 60.0,
        queue_limit: int = 1000,
        restart_budget: int = 5,
        start_timeout: float = 120.0,
        hang_timeout: float = 30.0,
        drain_timeout: float = 30.0,
        warm_up: bool = True,
        lease_limit: int = _LEASED,
        allow_equal_shards: bool = False,
        cache: bool | str = True,
        slice: str | None = None,
        slice_dir: str | None = None,
    ) -> None:
        """Start all ranks and wait until they are ready.

        `model` is a file or a pattern with `{rank}`; or `config` names a YAML file with models.
        ModelSettings tells their settings. After TERM, requests under way have `drain_timeout`
        seconds. Results that callers hold may take `lease_limit` bytes; further ones are copied.

        Raises UsageError, ModelError, ShardMismatch, RankDied or RankHung; then no rank is left.
        """
        models = models_of(model, config, arguments=locals())
        self._fleet = Fleet(models, lease_limit, drain_timeout)
        self._end = weakref.finalize(self, self._fleet.close)
        self._clients = self._fleet.start()

    def __repr__(self) -> str:
        return f"<rankmesh.Orchestrator of {', '.join(self._clients)}: {self.status().state}>"

    @overload
    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
    ) -> Outputs: ...

    @overload
    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
    ) -> list[Outputs]: ...

    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
    ) -> Result:
        """Run one request and wait for its outputs: a dict from output name to array.

        `inputs` is one mapping from name to array, or one Buffers, or the arrays in the model's
        order. `timeout` is in seconds, None for no deadline (by default the model's); requests of
        higher `priority` go first. With `results="all"`: a list of one dict per rank, in rank
        order. `model` names one of several. An array is valid as long as it is held.

        Raises InputError, QueueFull, DeadlineExceeded, RankDied and the other errors of rankmesh.
        """
        client, given, seconds = self._asked(inputs, timeout, priority, results, model)
        return client.call(given, seconds, priority, results == "all")

    @overload
    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
    ) -> Future[Outputs]: ...

    @overload
    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
    ) -> Future[list[Outputs]]: ...

    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
    ) -> Future[Any]:
        """As `predict`, without waiting; the future can be cancelled before and during the run."""
        client, given, seconds = self._asked(inputs, timeout, priority, results, model)
        return client.submit(given, seconds, priority, results == "all")

    @overload
    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
    ) -> Outputs: ...

    @overload
    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
    ) -> list[Outputs]: ...

    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
    ) -> Result:
        """As `predict`, for asyncio."""
        client, given, seconds = self._asked(inputs, timeout, priority, results, model)
        return await asyncio.wrap_future(client.submit(given, seconds, priority, results == "all"))

    def buffers(self, model: str | None = None, **shapes: Sequence[int]) -> Buffers:
        """Shared memory to write the inputs of requests in place; a context manager.

        `shapes` has by name those of inputs that the model leaves open.
        """
        return Buffers(self._client(model).interface.inputs, shapes)

    def models(self) -> tuple[str, ...]:
        """The names of all models, in the order of their settings."""
        return tuple(self._clients)

    def loop_caller(self, loop: asyncio.AbstractEventLoop) -> LoopCaller:
        """A caller for servers: `loop`, which runs in this thread, takes the answers itself."""
        return self._fleet.loop_caller(self._clients, loop)

    def inputs(self, model: str | None = None) -> tuple[TensorSpec, ...]:
        """The inputs of a model, in its order: names, dtypes and shapes (-1: any size)."""
        return self._client(model).interface.report.inputs

    def outputs(self, model: str | None = None) -> tuple[TensorSpec, ...]:
        """The outputs of a model, likewise."""
        return self._client(model).interface.report.outputs

    def status(self) -> Status:
        """One snapshot of all models and ranks; never waits."""
        return status_of(list(self._fleet.models.values()))

    def metrics(self) -> dict[str, ModelMetrics]:
        """Metrics of all requests, by model: counts, failures by class, latencies in seconds."""
        found: dict[str, ModelMetrics] = {}
        for label, model in self._fleet.models.items():
            scheduler = model.dispatcher.scheduler
            found[label] = {
                **model.dispatcher.counters.snapshot(),
                "queue_depth": scheduler.waiting,
                "running": scheduler.running,
                "weights_version": scheduler.weights.version,
            }
        return found

    def update_weights(
        self, weights: GivenWeights, delta: bool = False, model: str | None = None
    ) -> int:
        """Replace weights in all ranks of all replicas, or in none, while requests run.

        Returns the new version. `weights` is a dict from name to array, for every rank that has a
        weight of this name, in its shape there (of what `rankmesh slice` has sliced: whole weights,
        by the whole model's names); such a dict per rank, as a list or by rank; or a file in
        .safetensors, .npz or .mindir (another MindIR of the same model), by `{rank}` each rank's
        own. Names are those of Model.update_weights. With `delta` floats are added to the weights
        as exported. All other weights stay.

        Each replica switches between two of its requests, on all its ranks. An answer comes from
        one version; after this call it is the new one or a later, restarted ranks included. `model`
        names one of several.

        Raises InputError, naming the weight, for an unknown name, shape or dtype, ModelError where
        the model's files are others by now, RankFailed where ranks fail meanwhile; then nothing has
        changed.
        """
        return self._fleet.models[self._fleet.label_of(model)].updates.update(weights, delta)

    def rollback(self, model: str | None = None) -> int:
        """Go back, once, to the weights before the last update; returns their version.

        Raises UsageError where none is kept.
        """
        return self._fleet.models[self._fleet.label_of(model)].updates.rollback()

    def drain(self, timeout: float | None = None) -> bool:
        """Take no more requests; whether those under way were answered in `timeout` seconds."""
        return self._fleet.drain(timeout)

    def close(self) -> None:
        """End all ranks; requests that are not answered yet fail with Closed."""
        self._end()

    def _client(self, model: str | None) -> ModelClient:
        return self._clients[self._fleet.label_of(model)]

    def _asked(
        self,
        inputs: tuple[Any, ...],
        timeout: float | None,
        priority: int,
        results: str,
        model: str | None,
    ) -> tuple[ModelClient, GivenInputs, float | None]:
        """The client of a request, its inputs as one mapping or sequence, and its seconds."""
        client = self._client(model)
        check_call(results, priority)
        if timeout is not None and timeout != _MODELS:
            check_seconds("timeout", timeout, or_zero=True)
        given = inputs[0] if len(inputs) == 1 and are_by_name(inputs[0]) else inputs
        return client, given, client.timeout if timeout == _MODELS else timeout

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
