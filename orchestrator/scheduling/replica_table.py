"""Replica table: keeps the condition, the orders and the weights of each replica of a model."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...comm.serving.orders import Answer, InvalidRankData
from ..requests.request import Request
from .admission import Admission
from .batch import Batch, InflightOrder
from .inflight import InflightBatches
from .ready_replicas import ReadyReplicas
from .replica_weights import ReplicaWeights, exported_weights

_RECHECK = 1.0
"""Seconds between checks of a thread that waits for replicas."""


class ReplicaCondition(Enum):
    """Condition of a replica."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPED = "stopped"


STARTING = ReplicaCondition.STARTING
READY = ReplicaCondition.READY
STOPPED = ReplicaCondition.STOPPED


@dataclass(slots=True)
class ReplicaState:
    """One replica: `start_version` is the version of the weights that its ranks start with."""

    start_version: int = 0
    condition: ReplicaCondition = STARTING
    incarnation: int = 0
    inflight: InflightBatches | None = None

    @property
    def weights_version(self) -> int:
        """How many updates are in effect for the batches that the ranks are given now."""
        return self.start_version if self.inflight is None else self.inflight.weights_version

    @property
    def settled(self) -> bool:
        """Whether the ranks run requests, with the weights that were ordered last."""
        if self.inflight is None or self.condition is not READY:
            return False
        return not self.inflight.switching


class CollectedBatch(NamedTuple):
    """A batch that all ranks have carried out; `more`: its replica may have news of other ones."""

    batch: Batch
    more: bool


SlotNews = tuple[int, list[Batch], bool]
"""A replica, the batches of a slot that all of its ranks have carried out, and whether it has other
news.
"""


class FinishedOrder(NamedTuple):
    """An order that all ranks have carried out."""

    order: InflightOrder


class UnfinishedOrder(NamedTuple):
    """The oldest order of a replica, and by rank the answers so far, errors among them."""

    order: InflightOrder
    answers: dict[int, Answer]


class Withdrawn(NamedTuple):
    """Orders that a replica had under way, whether it had completed a batch since its start, and
    its former condition.
    """

    orders: list[InflightOrder]
    completed: bool
    was: ReplicaCondition


class ReplicaTable:
    """State of a model's replicas. Safe for any thread: each method takes the lock."""

    def __init__(self, replicas: int, world_size: int) -> None:
        """`replicas` groups of `world_size` ranks."""
        self.admission = Admission()
        self.weights = exported_weights(world_size)
        """The weights in effect, with which ranks start."""

        self.replicas = [ReplicaState() for _ in range(replicas)]
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ready = ReadyReplicas()

    @property
    def started(self) -> bool:
        """Whether no replica is in its first start any more."""
        return all(state.condition is not STARTING for state in self.replicas)

    @property
    def stopped(self) -> bool:
        """Whether all replicas are stopped."""
        return all(state.condition is STOPPED for state in self.replicas)

    def abandon(self, request: Request) -> None:
        """The thread that sent a request waits at its slot no more."""
        with self._lock:
            inflight = self.inflight_of(request)
            if inflight is not None:
                inflight.abandon(request)

    def inflight_of(self, request: Request) -> InflightBatches | None:
        """The batches of the replica that a request was given to last; None without one."""
        return None if request.replica < 0 else self.replicas[request.replica].inflight

    def collect(self, request: Request) -> CollectedBatch | None:
        """Remove the batch of a request, if all ranks carried it out. Raises InvalidRankData."""
        with self._lock:
            inflight = self.inflight_of(request)
            batch = None if inflight is None else inflight.batch_of(request)
            if inflight is None or batch is None:
                return None
            if not inflight.finish(batch):
                return None
            self._ready.note(inflight)
            return CollectedBatch(batch, inflight.world_size > 1 and len(inflight) > 0)

    def collect_at(self, slot: int) -> list[SlotNews]:
        """Remove the batches of a slot that all ranks of their replica carried out."""
        found = []
        with self._lock:
            for inflight in self._ready.in_order:
                if inflight.orders and (news := self._news(inflight, slot)) is not None:
                    found.append(news)
        return found

    def _news(self, inflight: InflightBatches, slot: int) -> SlotNews | None:
        collected: list[Batch] = []
        look = False
        try:
            for order in tuple(inflight.orders):
                if not isinstance(order, Batch) or order.slot != slot:
                    continue
                if inflight.finish(order):
                    collected.append(order)
                elif inflight.has_answers(order):
                    look = True
        except InvalidRankData:  # the loop's thread finds it as well, and ends the rank
            look = True
        if collected:
            self._ready.note(inflight)
            look = look or len(inflight.orders) > 0 and inflight.world_size > 1
        return (inflight.replica, collected, look) if collected or look else None

    def starting(self, replica: int) -> ReplicaWeights:
        """The weights that the ranks start with."""
        with self._lock:
            state = self.replicas[replica]
            state.incarnation += 1
            state.start_version = self.weights.version
            return self.weights

    def stop(self, replica: int) -> None:
        """A replica takes no more orders, ever; those that it has may still be answered."""
        with self._lock:
            state = self.replicas[replica]
            state.condition = STOPPED
            if state.inflight is not None:
                state.inflight.close()
            self._changed.notify_all()

    def withdraw(self, replica: int) -> Withdrawn:
        """Take no more orders on a replica and remove those it has: its ranks have failed, or are
        gone.

        A replica that has been ready restarts, unless `stop` says otherwise; one that has not is
        stopped.
        """
        with self._lock:
            state = self.replicas[replica]
            was = state.condition
            if was is not STOPPED:
                first = was is STARTING
                state.condition = STOPPED if first else ReplicaCondition.RESTARTING
            inflight, state.inflight = state.inflight, None
            self._changed.notify_all()
            if inflight is None:
                return Withdrawn([], False, was)
            state.start_version = inflight.weights_version
            self._ready.remove(inflight)
            return Withdrawn(inflight.withdraw(), inflight.completed, was)

    def oldest(self, replica: int) -> InflightOrder | None:
        """The oldest order of a replica; None where it has none."""
        inflight = self.replicas[replica].inflight
        return None if inflight is None else inflight.first

    def review(self, replica: int) -> FinishedOrder | UnfinishedOrder | None:
        """The oldest order of a replica, removed if it is finished; None where there is none.

        Ranks that need memory for outputs get it. Raises InvalidRankData.
        """
        with self._lock:
            inflight = self.replicas[replica].inflight
            order = None if inflight is None else inflight.first
            if inflight is None or order is None:
                return None
            if inflight.finish(order):
                self._ready.note(inflight)
                return FinishedOrder(order)
            return UnfinishedOrder(order, inflight.answers(order))

    def remove(self, replica: int, order: InflightOrder) -> None:
        """Remove an order, however it was answered."""
        with self._lock:
            inflight = self.replicas[replica].inflight
            if inflight is not None:
                inflight.remove(order)
                self._ready.note(inflight)

    def settled(self) -> list[int]:
        """Wait until every replica that is not stopped runs requests with the weights last ordered;
        which these are.
        """
        with self._changed:
            while True:
                self.admission.require_open()
                living = [state for state in self.replicas if state.condition is not STOPPED]
                if living and all(state.settled for state in living):
                    break
                self._changed.wait(_RECHECK)
            return [
                index for index, state in enumerate(self.replicas) if state.condition is not STOPPED
            ]

    def commit(self, weights: ReplicaWeights, staged: Collection[tuple[int, int]]) -> bool:
        """Put weights into effect, if all replicas are settled and have them `staged`: by replica
        and incarnation.
        """
        with self._lock:
            self.admission.require_open()
            for index, state in enumerate(self.replicas):
                ready = state.settled and (index, state.incarnation) in staged
                if not ready and state.condition is not STOPPED:
                    return False
            self.weights = weights
            for inflight in self._ready.in_order:
                inflight.switch(weights)
                self._ready.note(inflight)
            return True

    def forget_weights(self) -> None:
        """Drop the updated weights: the ranks have ended."""
        with self._lock:
            self.weights = exported_weights(len(self.weights.ranks))

    def wait_switched(self) -> None:
        """Wait until all replicas compute with the weights in effect; raises why that ends."""
        with self._changed:
            while any(inflight.switching for inflight in self._ready.in_order):
                self.admission.require_open()
                self._changed.wait(_RECHECK)
