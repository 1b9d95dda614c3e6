"""Orchestrator: models on supervised ranks, for any number of requests from any thread."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..comm.request_memory.owned_arena import ArenaUse
from ..comm.serving.tensor_spec import TensorSpec
from .config.call_settings import GivenModel, agents_of, models_of, settings_of
from .config.class_labels import ClassLabels
from .config.published_model import PublishedModel, published_form
from .config.settings import BatchingSettings, ServedSettings
from .fleet import Fleet
from .generation.generation_calls import GenerationCalls
from .replica.rank_status import Status
from .request_calls import RequestCalls
from .requests.loaded_versions import LoadedVersions
from .requests.metrics import ModelMetrics
from .scheduling.loop_caller import LoopCaller
from .status import status_of
from .weights.payload import GivenWeights

if TYPE_CHECKING:
    from typing_extensions import Unpack  # Python 3.10 has none

    from .config.launcher_settings import LaunchingArguments

_LEASED = 1 << 30


class Orchestrator(RequestCalls, GenerationCalls):
    """Ranks that run one or more models; a context manager.

    It leaves no process, descriptor or segment behind. Every method may be called from any thread.
    Ranks never import the caller's program.
    """

    def __init__(
        self,
        model: GivenModel | None = None,
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
        precision_mode: str | None = None,
        **launching: Unpack[LaunchingArguments],
    ) -> None:
        """Start all ranks and wait until they are ready.

        `model` is a file or a pattern with `{rank}`, or settings of models and chains; or `config`
        names a YAML file with them. After TERM, requests under way have `drain_timeout` seconds.
        Results that callers hold may take `lease_limit` bytes; further ones are copied. `launching`
        are LauncherSettings: `launcher="agents"` has ranks run on other hosts, "ray" on Ray's.
        Raises UsageError, ModelError, ShardMismatch, RankDied or RankHung; then no rank is left.
        """
        models, agents = models_of(model, config, locals()), agents_of(config, launching)
        self._fleet = self._callers = self._decoders = Fleet(lease_limit, drain_timeout, agents)
        self._end = weakref.finalize(self, self._fleet.close)
        self._fleet.start(models)

    def __repr__(self) -> str:
        return f"<rankmesh.Orchestrator of {', '.join(self.models())}: {self.status().state}>"

    def models(self) -> tuple[str, ...]:
        """The names of the models that are loaded, in the order in which they were."""
        return tuple(self._fleet.table.serving)

    def versions(self) -> Mapping[str, LoadedVersions]:
        """The versions of all models, by name."""
        return self._fleet.table.loaded

    def settings(self) -> dict[str, ServedSettings]:
        """The settings of the models in their current versions, as they were given, by name."""
        return {name: one.current.given for name, one in self._fleet.table.serving.items()}

    def load(
        self,
        model: str | os.PathLike[str] | ServedSettings,
        *,
        switch: bool = True,
        **settings: Any,
    ) -> int:
        """Start a further model while the others run, and wait until it is ready; its version.

        `model` and `settings` are those of ModelSettings; a chain has ChainSettings. Where a model
        of this name is loaded, the new one is a further version beside it. With `switch` requests
        without a version go to the new one from then on.

        Raises UsageError, also where a chain does not fit the new version, ModelError,
        ShardMismatch, RankDied or RankHung; then nothing has changed.
        """
        return self._fleet.load(settings_of(model, settings), switch).version

    def replace(
        self,
        models: Sequence[ServedSettings],
        timeout: float | None = 30.0,
        *,
        followed_by: Collection[str] = (),
    ) -> tuple[int, ...]:
        """Have versions of one model take the place of all that are loaded; their numbers.

        The last one answers requests without a version. When all are ready, the old ones take no
        more requests; those under way have `timeout` seconds, and then fail with Closed.
        `followed_by` names chains that are replaced next, which the new versions need not fit.

        Raises what `load` raises; then nothing has changed.
        """
        return tuple(self._fleet.replace(models, timeout, followed_by))

    def switch(self, model: str, version: int) -> None:
        """Have requests without a version go to this one. Raises UsageError where it is not
        loaded, or does not fit a chain that it is a step of.
        """
        self._fleet.table.switch(model, version)

    def unload(self, model: str, version: int | None = None, timeout: float | None = 30.0) -> bool:
        """End a model, or one of its versions; whether its requests under way were answered.

        It takes no more requests; those under way have `timeout` seconds, and then fail with
        Closed. Requests without a version go to the newest version that is left.
        """
        return self._fleet.unload(model, version, timeout)

    def listen(self, name: str) -> None:
        """Take requests of other programs of this user on this host, by `rankmesh.connect(name)`.

        They read and write the memory that tensors of requests are in. Raises UsageError where
        another orchestrator has the name.
        """
        self._fleet.endpoint().listen(name)

    def model_settings(
        self, model: str | None = None, version: int | None = None
    ) -> ServedSettings:
        """The settings of a version of a model, as they were given."""
        return self._fleet.find(model, version).given

    def published(
        self, model: str | None = None, version: int | None = None
    ) -> PublishedModel | None:
        """The form in which clients see a version of a model; None: as its file has it."""
        return published_form(self.model_settings(model, version))

    def admit(self, program: socket.socket) -> None:
        """Take requests of a process at the other end of a socket pair, for servers."""
        self._fleet.endpoint().add(program)

    def loop_caller(self, loop: asyncio.AbstractEventLoop) -> LoopCaller:
        """A caller for servers: `loop`, which runs in this thread, takes the answers itself."""
        return self._fleet.loop_caller(loop)

    def inputs(
        self, model: str | None = None, version: int | None = None
    ) -> tuple[TensorSpec, ...]:
        """The inputs of a model, in its order: names, dtypes and shapes (-1: any size)."""
        return self._fleet.client(model, version).interface.report.inputs

    def outputs(
        self, model: str | None = None, version: int | None = None
    ) -> tuple[TensorSpec, ...]:
        """The outputs of a model, likewise."""
        return self._fleet.client(model, version).interface.report.outputs

    def class_labels(self, model: str | None = None, version: int | None = None) -> ClassLabels:
        """The labels of a model's classes, by the names of the outputs that have some."""
        return self._fleet.find(model, version).labels

    def status(self) -> Status:
        """One snapshot of all models and ranks; never waits."""
        table = self._fleet.table
        return status_of(table.serving.values(), table.living)

    def metrics(self) -> dict[str, ModelMetrics]:
        """Metrics of the requests to the current versions, by model: counts, failures by class,
        latencies in seconds.
        """
        return {name: one.current.metrics() for name, one in self._fleet.table.serving.items()}

    def version_metrics(self, model: str | None = None, version: int | None = None) -> ModelMetrics:
        """Metrics of one version of a model."""
        return self._fleet.find(model, version).metrics()

    def shared_memory(self) -> dict[str, ArenaUse]:
        """Bytes of the memory that this process and all ranks share: for the `tensors` of requests,
        and for `weights` that were updated.
        """
        parts = self._fleet.parts
        return {"tensors": parts.arena.use, "weights": parts.weights.use}

    def update_weights(
        self,
        weights: GivenWeights,
        delta: bool = False,
        model: str | None = None,
        version: int | None = None,
    ) -> int:
        """Replace weights in all ranks of all replicas, or in none, while requests run.

        Returns the new version. `weights` is a dict from name to array, for every rank that has a
        weight of this name, in its shape there (of what `rankmesh slice` has sliced: whole weights,
        by the whole model's names); such a dict per rank, as a list or by rank; or a file in
        .safetensors, .npz, .mindir or .ms (another file of the same model), by `{rank}` each rank's
        own. Names are those of Model.update_weights. With `delta` floats are added to the weights
        as exported. All other weights stay.

        Each replica switches between two of its requests, on all its ranks. An answer comes from
        one version; after this call it is the new one or a later, restarted ranks included. `model`
        names one of several, `version` one of its versions.

        Raises InputError, naming the weight, for an unknown name, shape or dtype, ModelError where
        the model's files are others by now, RankFailed where ranks fail meanwhile; then nothing has
        changed.
        """
        return self._fleet.find(model, version).updates.update(weights, delta)

    def rollback(self, model: str | None = None, version: int | None = None) -> int:
        """Go back, once, to the weights before the last update; returns their version.

        Raises UsageError where none is kept.
        """
        return self._fleet.find(model, version).updates.rollback()

    def drain(self, timeout: float | None = None) -> bool:
        """Take no more requests; whether those under way were answered in `timeout` seconds."""
        return self._fleet.drain(timeout)

    def close(self) -> None:
        """End all ranks; requests that are not answered yet fail with Closed."""
        self._end()

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
