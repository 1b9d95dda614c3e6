"""Fleet of an orchestrator: its models, their replicas, the event loop and the shared memory."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..comm.errors import Closed, UsageError
from ..comm.host.resources import gpu_count, memory_limit
from ..comm.host.secrecy import close_to_others
from ..comm.job.environment import deadline_from_environment
from ..comm.job.shard import find_shards
from ..comm.loggers import check_log_setting
from ..comm.serving.caller_slots import CallerSlots
from ..comm.serving.orders import ServeJob
from ..comm.serving.tensor_arena import OwnedArena
from ..comm.serving.weight_slices import read_weight_slices
from ..rank_tables.fault import RankTableFault
from ..rank_tables.table import RankTable
from .config.settings import OFF, ModelSettings
from .config.sliced_models import SlicedModels
from .config.topology import ModelFiles, ReplicaPlan, plan_replicas
from .event_loop.loop import EventLoopThread, IdleTrim, Reminder
from .event_loop.termination import Termination
from .replica.replica import Replica, ReplicaSpec
from .scheduling.client import ModelClient
from .scheduling.dispatcher import Dispatcher
from .scheduling.loop_caller import LoopCaller
from .weights.weight_updates import WeightUpdates

_LOG = logging.getLogger("rankmesh.orchestrator")
_LARGE = 256 << 20
"""Bytes of a model from which one replica starts before the others.

They then map what it has put into the model cache; else all would pack the weights at once.
"""

_IDLE = 10.0
"""Seconds without a request after which free memory goes back to the system."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """One model: its dispatcher, its replicas, and the updates of its weights."""

    label: str
    dispatcher: Dispatcher
    replicas: tuple[Replica, ...]
    updates: WeightUpdates
    one_first: bool

    def start(self) -> None:
        """Start the replicas; in the event loop's thread."""
        self.dispatcher.start([replica.start for replica in self.replicas], self.one_first)


class Fleet:
    """All that an Orchestrator runs; refers to no Orchestrator, so that one can be forgotten."""

    def __init__(
        self, models: Sequence[ModelSettings], lease_limit: int, drain_timeout: float
    ) -> None:
        """Prepare to start; UsageError, ModelError where that cannot be."""
        check_log_setting()
        close_to_others()  # before there is memory that requests and weights are in
        self._process = os.getpid()
        self._closed = False
        largest = memory_limit().size
        self._arena = OwnedArena(lease_limit, largest)
        self._weights = OwnedArena(0, largest)
        self._loop = EventLoopThread()
        self._sliced = SlicedModels()
        found = [_find(self._sliced.shards_of(model)) for model in models]
        cores = sorted(os.sched_getaffinity(0))
        plans = plan_replicas(found, socket.gethostname(), cores)
        ranks = [spec for plan in plans for spec in plan.ranks]
        self._spin = sum(spec.threads for spec in ranks) <= len(cores)
        self._slots = CallerSlots(CallerSlots.create(), spare=len(ranks) < len(cores))
        self.models = {one.settings.label: self._served(one, plans) for one in found}
        """By label."""

        self._termination = Termination(self.drain, self.close, drain_timeout)

    def start(self) -> dict[str, ModelClient]:
        """Start all ranks and wait until they are ready; the clients of the models, by label.

        Raises what went wrong; then no process is left.
        """
        self._loop.start()
        IdleTrim(self._arena, self._loop, _IDLE)
        Reminder(self._slots, self._loop)
        try:
            for model in self.models.values():
                self._loop.call_soon(model.start)
            clients = {label: self._client(model) for label, model in self.models.items()}
            self._termination.enable()
        except BaseException:
            self.close()
            raise
        return clients

    def label_of(self, model: str | None) -> str:
        """The label of a model, None for the only one.

        UsageError where there is no such model, or in a forked child.
        """
        if os.getpid() != self._process:
            raise UsageError(
                f"this orchestrator belongs to process {self._process}, from which this one was "
                "forked: use it there, or make one here."
            )
        if model is None and len(self.models) == 1:
            return next(iter(self.models))
        if model is None or model not in self.models:
            got = "no model was named" if model is None else f"there is no model {model!r}"
            raise UsageError(f"{got}: name one of {', '.join(self.models)}.")
        return model

    def loop_caller(
        self, clients: Mapping[str, ModelClient], loop: asyncio.AbstractEventLoop
    ) -> LoopCaller:
        """A caller for an asyncio loop; in its thread."""
        return LoopCaller(clients, self._slots, loop)

    def drain(self, timeout: float | None) -> bool:
        """Take no more requests; whether those under way were answered within `timeout` seconds."""
        self._loop.require_another("drain")
        dispatchers = [model.dispatcher for model in self.models.values()]
        for dispatcher in dispatchers:
            dispatcher.scheduler.drain()
        end = None if timeout is None else time.monotonic() + timeout
        idle = True
        for dispatcher in dispatchers:
            left = None if end is None else max(0.0, end - time.monotonic())
            idle &= dispatcher.replies.wait_idle(left)
        return idle

    def close(self) -> None:
        """End everything, once; in a forked child nothing, which owns nothing."""
        if self._closed or os.getpid() != self._process:
            return
        if threading.current_thread() is self._loop:  # in a callback, or the garbage collector
            threading.Thread(target=self.close, name="rankmesh-close", daemon=True).start()
            return
        self._closed = True
        self._termination.forget()
        text = "the orchestrator was closed before the request was answered."
        for model in self.models.values():
            model.dispatcher.give_up(Closed(text))
        if self._loop.is_alive():
            replicas = [one for model in self.models.values() for one in model.replicas]
            self._loop.call_soon(lambda: _end_replicas(replicas, self._loop.stop))
            self._loop.join()
        self._arena.close()
        self._weights.close()
        self._slots.close()
        self._sliced.close()
        for model in self.models.values():
            model.dispatcher.journal.say(logging.INFO, "closed")

    def _client(self, model: ServedModel) -> ModelClient:
        """The client of a model, once it has started."""
        interface = model.dispatcher.wait_started()
        return ModelClient(interface, model.dispatcher, model.replicas, self._slots, self._loop)

    def _served(self, files: ModelFiles, plans: Sequence[ReplicaPlan]) -> ServedModel:
        settings = files.settings
        mine = [plan for plan in plans if plan.label == settings.label]
        world_size = len(mine[0].ranks)
        files.shards.require(world_size)
        dispatcher = Dispatcher(
            settings, len(mine), world_size, self._arena, self._slots, self._loop
        )
        large = files.shards.bytes >= _LARGE and settings.cache_folder != OFF
        one_first = len(mine) > 1 and large
        replicas = tuple(
            self._replica(files, plan, dispatcher, one_first and plan.replica == 0) for plan in mine
        )
        slices = read_weight_slices(files.shards.pattern) if files.shards.numbered else None
        updates = WeightUpdates(
            settings, dispatcher.scheduler, replicas, self._weights, self._loop, slices
        )
        return ServedModel(settings.label, dispatcher, replicas, updates, one_first)

    def _replica(
        self, files: ModelFiles, plan: ReplicaPlan, dispatcher: Dispatcher, first: bool
    ) -> Replica:
        settings = files.settings
        job = ServeJob(
            files.shards.pattern,
            files.shards.count,
            settings.device or "",
            settings.collectives,
            1,
            self._spin,
            self._slots.spare,
            -1,
            self._arena.fd,
            -1,
            list(self._slots.files),
            os.getpid(),
            [],
            first=first,
            updates=self._weights.fd,
            warm=settings.warm_up,
            allow_equal_shards=settings.allow_equal_shards,
            cache=settings.cache_folder,
        )
        spec = ReplicaSpec(plan.replica, plan.ranks, job, settings, deadline_from_environment())
        return Replica(spec, dispatcher, self._slots, self._loop)


def _end_replicas(replicas: Sequence[Replica], ended: Callable[[], None]) -> None:
    """End all of them in order, side by side, then call `ended`; in the event loop's thread."""
    left = set(replicas)

    def one_less(replica: Replica) -> None:
        left.discard(replica)
        if not left:
            ended()

    for replica in replicas:
        try:
            replica.stop(partial(one_less, replica))
        except Exception:  # of any class: the other replicas have to end, and the loop
            index = replica.spec.index
            _LOG.exception("replica %d did not end in order", index, extra={"replica": index})
            one_less(replica)


def _find(model: ModelSettings) -> ModelFiles:
    """The files and devices that a model's settings mean."""
    table = None
    if model.rank_table is not None:
        try:
            table = RankTable.read(model.rank_table)
        except RankTableFault as fault:
            raise UsageError(str(fault)) from fault
    devices = tuple(range(gpu_count())) if model.device == "gpu" else ()
    return ModelFiles(model, find_shards(model.path), table, devices)
