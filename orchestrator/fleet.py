"""All models of one orchestrator: their dispatchers, the thread that watches, the memory of their tensors."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any

import msgspec

from ..comm.errors import Closed, UsageError
from ..comm.gpus import gpu_count
from ..comm.log_setting import check_log_setting
from ..comm.memory_limit import memory_limit
from ..comm.serving.orders import ServeJob
from ..comm.serving.seats import Seats
from ..comm.serving.tensor_arena import OwnedArena
from ..comm.shard import find_shards
from ..comm.sharing.undumpable import close_to_others
from ..rank_tables.fault import RankTableFault
from ..rank_tables.table import RankTable
from .dispatch import Dispatcher
from .group import Group
from .idle import IdleTrim, Reminder
from .intake import Intake
from .journal import Journal
from .loop import Loop
from .settings import OFF, ModelSettings
from .status import Status, status_of
from .termination import Termination
from .topology import Found, GroupPlan, plan_groups

_LOG = logging.getLogger("rankmesh.orchestrator")
_LARGE = 256 << 20
"""Bytes of a model from which on replicas start one before the others, which then map what it has put into the model
cache: else all would pack the weights at the same time, each for itself.
"""

_IDLE = 10.0
"""Seconds without a request after which memory that nobody holds is given back."""


class Fleet:
    """What an Orchestrator runs; nothing here refers to that, so that all ends when it is forgotten."""

    def __init__(self, models: Sequence[ModelSettings], lease_limit: int) -> None:
        """Nothing is started yet; UsageError, ModelError where it could not be."""
        check_log_setting()
        close_to_others()  # before there is memory that requests and weights are in
        self._process, self._closed = os.getpid(), False
        largest = memory_limit().size
        self._arena, self._weights = OwnedArena(lease_limit, largest), OwnedArena(0, largest)
        self._loop = Loop()
        found = [_find(model) for model in models]
        cores = sorted(os.sched_getaffinity(0))
        plans = plan_groups(found, socket.gethostname(), cores)
        self._spin = sum(spec.threads for plan in plans for spec in plan.ranks) <= len(cores)
        self._seats = Seats(Seats.create(), spare=sum(len(plan.ranks) for plan in plans) < len(cores))
        self._dispatchers = {one.settings.label: self._dispatcher(one, plans) for one in found}
        self._intakes = {label: Intake(one, self._seats, self._loop) for label, one in self._dispatchers.items()}
        self._termination: Termination | None = None

    def start(self, drain_timeout: float) -> None:
        """Start all ranks and wait until they are ready; raises what went wrong, with nothing left."""
        self._loop.start()
        IdleTrim(self._arena, self._loop, _IDLE)
        Reminder(self._seats, self._loop)
        try:
            for dispatcher in self._dispatchers.values():
                self._loop.call_soon(dispatcher.start)
            for dispatcher in self._dispatchers.values():
                dispatcher.standing.wait_started()
            self._termination = Termination(self.drain, self.close, drain_timeout)
        except BaseException:
            self.close()
            raise

    def of(self, model: str | None) -> Dispatcher:
        """The dispatcher of a model; as `intake`."""
        return self.intake(model).dispatcher

    def intake(self, model: str | None) -> Intake:
        """The intake of a model, None for the only one; UsageError where there is none, or in a forked child."""
        if os.getpid() != self._process:
            raise UsageError(f"this orchestrator belongs to process {self._process}, from which this one was forked: "
                             f"use it there, or make one here.")
        if model is None and len(self._intakes) == 1:
            return next(iter(self._intakes.values()))
        if model is None or model not in self._intakes:
            got = "no model was named" if model is None else f"there is no model {model!r}"
            raise UsageError(f"{got}: name one of {', '.join(self._intakes)}.")
        return self._intakes[model]

    def status(self) -> Status:
        """One snapshot of everything."""
        return status_of(self._dispatchers.values())

    def metrics(self) -> dict[str, Any]:
        """The counters of every model, by its name."""
        return {label: {**dispatcher.counters.snapshot(), "queue_depth": len(dispatcher.queue),
                        "weights_version": dispatcher.edition.version}
                for label, dispatcher in self._dispatchers.items()}

    def drain(self, timeout: float | None) -> bool:
        """Take no more requests, and wait for those under way; whether all were answered."""
        dispatchers = list(self._dispatchers.values())
        for dispatcher in dispatchers:
            dispatcher.take_no_more()
        end = inf if timeout is None else time.monotonic() + timeout
        return all([one.wait_idle(None if end == inf else max(0.0, end - time.monotonic())) for one in dispatchers])

    def close(self) -> None:
        """End everything, once; in a forked child nothing, as nothing is its own."""
        if self._closed or os.getpid() != self._process:
            return
        if threading.current_thread() is self._loop:  # in a callback of a future, or when garbage is collected there
            threading.Thread(target=self.close, name="rankmesh-close", daemon=True).start()
            return
        self._closed = True
        if self._termination is not None:
            self._termination.forget()
        for dispatcher in self._dispatchers.values():
            dispatcher.give_up(Closed("the orchestrator was closed before the request was answered."))
        if self._loop.is_alive():
            groups = [group for dispatcher in self._dispatchers.values() for group in dispatcher.groups]
            self._loop.call_soon(lambda: _end_groups(groups, self._loop.stop))
            self._loop.join()
        self._arena.close()
        self._weights.close()
        self._seats.close()
        for dispatcher in self._dispatchers.values():
            dispatcher.journal.say(logging.INFO, "closed")

    def _dispatcher(self, found: Found, plans: Iterable[GroupPlan]) -> Dispatcher:
        model, shards = found.settings, found.shards
        dispatcher = Dispatcher(model, self._arena, self._weights, self._seats, self._loop,
                                Journal(model.label))
        job = ServeJob(shards.pattern, shards.count, model.device or "", model.collectives, 1, self._spin,
                       self._seats.spare, -1, self._arena.fd, -1, list(self._seats.files), os.getpid(), [],
                       updates=self._weights.fd, warm=model.warm_up,
                       allow_equal_shards=model.allow_equal_shards, cache=model.cache_folder)
        mine = [plan for plan in plans if plan.label == model.label]
        dispatcher.one_first = len(mine) > 1 and shards.bytes >= _LARGE and model.cache_folder != OFF
        for plan in mine:
            job = msgspec.structs.replace(job, first=dispatcher.one_first and plan.replica == 0)
            shards.require(len(plan.ranks))
            dispatcher.groups.append(Group(plan.replica, plan.ranks, job, model, self._arena, self._seats, self._loop,
                                           dispatcher, dispatcher.lock))
        return dispatcher


def _end_groups(groups: Sequence[Group], ended: Callable[[], None]) -> None:
    """End all of them in order, side by side, then call `ended`; in the loop's thread."""
    left = set(groups)

    def one_less(group: Group) -> None:
        left.discard(group)
        if not left:
            ended()

    for group in groups:
        try:
            group.stop(partial(one_less, group))
        except Exception:  # whatever it is: the others have to end, and this
            _LOG.exception("replica %d did not end in order", group.index, extra={"replica": group.index})
            one_less(group)


def _find(model: ModelSettings) -> Found:
    """The files and devices that a model's settings mean."""
    table = None
    if model.rank_table is not None:
        try:
            table = RankTable.read(model.rank_table)
        except RankTableFault as fault:
            raise UsageError(str(fault)) from fault
    return Found(model, find_shards(model.path), table, tuple(range(gpu_count())) if model.device == "gpu" else ())
