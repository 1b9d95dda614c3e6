"""The Python orchestration API: models on supervised ranks, any number of requests, from any thread."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from numbers import Integral
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import UsageError
from ..comm.serving.tensor_spec import TensorSpec
from .buffers import Buffers
from .fleet import Fleet
from .intake import Intake
from .offer import Given
from .settings import BatchingSettings, ModelSettings, check_seconds
from .status import Status

Array = NDArray[Any]
Results = Literal["once", "all"]
_LEASED = 1 << 30
_UNNAMED = "?"
_MODELS = -1  # the model's own timeout


class Orchestrator:
    """Ranks that run one or more models; a context manager that leaves no process, descriptor or segment behind.

    Every method may be called from any thread. Ranks never import the caller's program.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, ranks: int | None = None, *,
                 replicas: int | None = None, rank_table: str | None = None, device: str | None = None,
                 devices: Sequence[int] | None = None,
                 threads: int | None = None, collectives: str | None = None, config: str | None = None,
                 batching: BatchingSettings | None = None, timeout: float | None = 60.0, queue_limit: int = 1000,
                 restart_budget: int = 5, start_timeout: float = 120.0, hang_timeout: float = 30.0,
                 drain_timeout: float = 30.0, warm_up: bool = True, lease_limit: int = _LEASED,
                 allow_equal_shards: bool = False, cache: bool | str = True) -> None:
        """Start all ranks and wait until they are ready.

        `model` is a file or a pattern with `{rank}`; or `config` names a YAML file with one or more models. What the
        settings mean stands at ModelSettings; `drain_timeout` is how many seconds requests under way may still take
        when the process is sent TERM, `lease_limit` how many bytes of shared memory results may take that callers
        hold, after which results are copied. Raises UsageError, ModelError, ShardMismatch, RankDied or RankHung; then
        nothing is left running.
        """
        if (model is None) == (config is None):
            raise UsageError("Orchestrator: give a model, or config= with a YAML file, and not both.")
        one = ModelSettings(os.fspath(model or _UNNAMED), ranks=ranks, replicas=replicas, rank_table=rank_table,
                            device=device, devices=None if devices is None else tuple(devices), threads=threads,
                            collectives=collectives, batching=batching, timeout=timeout, queue_limit=queue_limit,
                            restart_budget=restart_budget, start_timeout=start_timeout, hang_timeout=hang_timeout,
                            warm_up=warm_up, allow_equal_shards=allow_equal_shards, cache=cache)
        models = (one,) if config is None else _from_file(config, one)
        self._fleet = Fleet(models, lease_limit)
        self._end = weakref.finalize(self, self._fleet.close)
        self._fleet.start(drain_timeout)

    def predict(self, *inputs: Any, timeout: float | None = _MODELS, priority: int = 0, results: Results = "once",
                model: str | None = None) -> Any:
        """Run one request and wait for its outputs: a dict from output name to array, in the model's order.

        `inputs` is one mapping from name to array, or one Buffers, or the arrays in the model's order. `timeout` is in
        seconds, None for no deadline (by default the model's); requests of higher `priority` go first. With
        `results="all"`: one dict per rank, in rank order. `model` names one of several. An array is valid as long as
        it is held. Raises InputError, QueueFull, DeadlineExceeded, RankDied, ... (the errors of rankmesh).
        """
        intake, given, seconds = self._asked(inputs, timeout, priority, results, model)
        return intake.call(given, seconds, priority, results == "all")

    def submit(self, *inputs: Any, timeout: float | None = _MODELS, priority: int = 0, results: Results = "once",
               model: str | None = None) -> Future[Any]:
        """As `predict`, without waiting; the future can be cancelled before and during the run."""
        intake, given, seconds = self._asked(inputs, timeout, priority, results, model)
        return intake.submit(given, seconds, priority, results == "all")

    async def predict_async(self, *inputs: Any, timeout: float | None = _MODELS, priority: int = 0,
                            results: Results = "once", model: str | None = None) -> Any:
        """As `predict`, for asyncio."""
        future = self.submit(*inputs, timeout=timeout, priority=priority, results=results, model=model)
        return await asyncio.wrap_future(future)

    def buffers(self, model: str | None = None, **shapes: Sequence[int]) -> Buffers:
        """Shared memory to write a request's inputs in place; `shapes` has those that the model leaves open."""
        return Buffers(self._fleet.of(model).inputs, shapes)

    def inputs(self, model: str | None = None) -> tuple[TensorSpec, ...]:
        """What a model takes: names, dtypes and shapes (-1: any size), in its order."""
        return tuple(self._fleet.of(model).inputs.specs)

    def outputs(self, model: str | None = None) -> tuple[TensorSpec, ...]:
        """What a model gives, likewise."""
        return self._fleet.of(model).assembly.outputs

    def status(self) -> Status:
        """One snapshot; never waits."""
        return self._fleet.status()

    def metrics(self) -> dict[str, Any]:
        """What has become of all requests, by model, for JSON: counts, failures by class, latencies in seconds."""
        return self._fleet.metrics()

    def update_weights(self, weights: Given, delta: bool = False, model: str | None = None) -> int:
        """Replace weights in all ranks of all replicas, or in none, while requests run; returns the new version.

        `weights` is a dict from name to array, for every rank that has a weight of this name, in the shape that it has
        there (of tensor-parallel shards: that of a shard); such a dict per rank, as a list or by rank; or a file in
        .safetensors, .npz or .mindir (another MindIR of the same model), by `{rank}` each rank's own. Names are those
        of Model.update_weights. With `delta` floats are added to the weights as exported. All other weights stay.

        Each replica switches between two of its requests, on all its ranks: an answer comes from one version, after
        this call from the new one or a later, restarted ranks included. `model` names one of several.

        Raises InputError, naming the weight, for an unknown name, shape or dtype, ModelError where the model's files
        are others by now, RankFailed where ranks die of it; then nothing has changed.
        """
        return self._fleet.of(model).updates.update(weights, delta)

    def rollback(self, model: str | None = None) -> int:
        """Go back to the weights before the last update, once; returns their version. UsageError where none is kept."""
        return self._fleet.of(model).updates.rollback()

    def drain(self, timeout: float | None = None) -> bool:
        """Take no more requests and wait at most `timeout` seconds for those under way; whether all were answered."""
        return self._fleet.drain(timeout)

    def close(self) -> None:
        """End all ranks; requests that are not answered yet fail."""
        self._end()

    def _asked(self, inputs: tuple[Any, ...], timeout: float | None, priority: int, results: str,
               model: str | None) -> tuple[Intake, Any, float | None]:
        """Who takes a request, its inputs as one mapping or sequence, and its seconds."""
        intake = self._fleet.intake(model)
        if results not in ("once", "all"):
            raise UsageError(f"results={results!r}: expected 'once', or 'all' for those of every rank.")
        if type(priority) is not int and not isinstance(priority, Integral):
            raise UsageError(f"priority={priority!r}: expected a whole number; requests of a higher one go first.")
        if timeout is not None and timeout != _MODELS:
            check_seconds("timeout", timeout, or_zero=True)
        given = inputs[0] if len(inputs) == 1 and _by_name(inputs[0]) else inputs
        return intake, given, intake.dispatcher.settings.timeout if timeout == _MODELS else timeout

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _by_name(value: Any) -> bool:
    """Whether a value is inputs by name, rather than the one input; asking an abstract class takes far longer."""
    kind = type(value)
    return kind is not np.ndarray and (kind is dict or kind is Buffers or isinstance(value, Mapping))


def _from_file(config: str, given: ModelSettings) -> tuple[ModelSettings, ...]:
    """The models of a YAML file; UsageError where the call itself has settings of a model, too."""
    from .settings_file import load_settings  # pydantic takes its time

    usual = ModelSettings(_UNNAMED)
    for field in fields(ModelSettings):
        if getattr(given, field.name) != getattr(usual, field.name):
            raise UsageError(f"Orchestrator: {field.name} is a setting of one model: write it into {config}.")
    return load_settings(config).models
