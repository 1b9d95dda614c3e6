"""Step table: has the condition of each replica of a decoder, and the step that its ranks run."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...comm.serving.order_state import OrderState
from ...comm.serving.orders import Answer, InvalidRankData, ModelReport, encode_order
from ...comm.serving.ring import Ring
from ...comm.serving.steps import DecoderStep
from ..scheduling.admission import Admission
from ..scheduling.batch import InflightOrder, StepOrder
from ..scheduling.replica_table import (
    FinishedOrder,
    ReplicaCondition,
    UnfinishedOrder,
    Withdrawn,
)
from ..scheduling.replica_weights import ReplicaWeights, exported_weights


@dataclass(slots=True, eq=False)
class DecodingReplica:
    """One replica: its ring and reports while its ranks take steps, and the step under way."""

    condition: ReplicaCondition = ReplicaCondition.STARTING
    weights_version: int = 0
    ring: Ring | None = None
    reports: Sequence[ModelReport] = ()
    order: StepOrder | None = None
    completed: bool = False


class StepTable:
    """See OrderTable. Any thread may call; a lock protects each change."""

    def __init__(self, replicas: int, world_size: int) -> None:
        self.admission = Admission()
        self.replicas = [DecodingReplica() for _ in range(replicas)]
        self._weights = exported_weights(world_size)
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether no replica is in its first start any more."""
        return all(one.condition is not ReplicaCondition.STARTING for one in self.replicas)

    @property
    def stopped(self) -> bool:
        """Whether all replicas are stopped."""
        return all(one.condition is ReplicaCondition.STOPPED for one in self.replicas)

    def open(self, replica: int, ring: Ring, reports: Sequence[ModelReport]) -> None:
        """The ranks of a replica take steps from now on."""
        with self._lock:
            state = self.replicas[replica]
            state.condition = ReplicaCondition.READY
            state.ring, state.reports = ring, reports
            state.completed = False

    def give(self, replica: int, step: DecoderStep, slot: int) -> StepOrder | None:
        """Give a step, whose answers notify the caller's `slot`; None where no ranks take it."""
        with self._lock:
            state = self.replicas[replica]
            if state.ring is None or state.condition is not ReplicaCondition.READY:
                return None
            state.order = order = StepOrder(state.ring.given, time.monotonic())
            state.ring.give(order.number, encode_order(step), slot)
            return order

    def collect(self, replica: int) -> bool:
        """Whether the step under way is finished, which it then leaves."""
        return isinstance(self.review(replica), FinishedOrder)

    def oldest(self, replica: int) -> InflightOrder | None:
        """See OrderTable."""
        return self.replicas[replica].order

    def starting(self, replica: int) -> ReplicaWeights:
        """See OrderTable: those of the model's files."""
        return self._weights

    def stop(self, replica: int) -> None:
        """See OrderTable."""
        with self._lock:
            self.replicas[replica].condition = ReplicaCondition.STOPPED

    def withdraw(self, replica: int) -> Withdrawn:
        """See OrderTable."""
        with self._lock:
            state = self.replicas[replica]
            was = state.condition
            if was is not ReplicaCondition.STOPPED:
                first = was is ReplicaCondition.STARTING
                state.condition = ReplicaCondition.STOPPED if first else ReplicaCondition.RESTARTING
            orders: list[InflightOrder] = [] if state.order is None else [state.order]
            state.ring = state.order = None
            return Withdrawn(orders, state.completed, was)

    def review(self, replica: int) -> FinishedOrder | UnfinishedOrder | None:
        """See OrderTable."""
        with self._lock:
            state = self.replicas[replica]
            order, ring = state.order, state.ring
            if order is None or ring is None:
                return None
            answers = ring.answers(order.number)
            if answers is not None and not any(one.error for one in answers.values()):
                order.accept(answers)
                state.order, state.completed = None, True
                return FinishedOrder(order)
            return UnfinishedOrder(order, _answers(ring, order))

    def remove(self, replica: int, order: InflightOrder) -> None:
        """See OrderTable."""
        with self._lock:
            if self.replicas[replica].order is order:
                self.replicas[replica].order = None


def _answers(ring: Ring, order: StepOrder) -> dict[int, Answer]:
    """The answers so far, by rank. Raises InvalidRankData where a rank asks for memory."""
    found = {}
    for rank in range(ring.world_size):
        state = ring.state(order.number, rank)
        if state is OrderState.NEEDS_ROOM:
            raise InvalidRankData(rank, "asked for room, which no step needs")
        if state is OrderState.ANSWERED:
            found[rank] = ring.answer(order.number, rank)
    return found
