"""Batches in flight: tracks the orders that the ranks of one replica have not finished."""

from __future__ import annotations

import time
from collections import deque
from math import inf

from ...comm.errors import OutOfMemory
from ...comm.serving.caller_slots import NO_SLOT
from ...comm.serving.order_state import OrderState
from ...comm.serving.orders import (
    Answer,
    InvalidRankData,
    OutputBuffer,
    Switch,
    encode_order,
)
from ...comm.serving.ring import Ring
from ..requests.outputs import OutputSpecs
from ..requests.request import Request
from .batch import Batch, InflightOrder, WeightSwitch, slot_of
from .model_interface import ModelInterface
from .replica_weights import ReplicaWeights

_NO_BUFFER = OutputBuffer(0, 0)
MOST_AHEAD = 8
"""How many orders a rank may have ahead: it and its server then sleep between fewer of them."""

QUICK_SECONDS = 0.005
"""Seconds that all orders of a rank take at most while it has several ahead."""

BRIEF_SECONDS = 0.03
"""Seconds. After longer batches a rank can wait a moment: a request goes to the replica that is
free first.
"""


class InflightBatches:
    """Orders of one replica, oldest first, each in a slot of its ring. Not thread-safe: part of a
    Scheduler's state.

    A slot of the ring is used again as soon as its order has left, so that answers are only read of
    orders that are still here. Reading raises InvalidRankData where a rank has written what cannot
    be; the order stays.
    """

    def __init__(
        self,
        replica: int,
        ring: Ring,
        outputs: OutputSpecs,
        interface: ModelInterface,
        weights_version: int,
        stages: int,
        ahead: bool,
    ) -> None:
        """`stages` orders can be under way, each in another stage of a pipeline.

        With `ahead` there may be more where batches are brief: the rank then need not wait until
        its answer was taken. The youngest can be recalled until the rank has begun.
        """
        self.replica = replica
        self.weights_version = weights_version
        """How many updates are in effect from the next order on."""

        self.switching = False
        """Whether a switch to other weights is under way."""

        self.completed = False
        """Whether any batch has been answered."""

        self._ring = ring
        self._outputs = outputs
        self._interface = interface
        self._stages = stages
        self._ahead = ahead
        self.orders = deque[InflightOrder]()
        self._next_weights: ReplicaWeights | None = None
        self._closed = False
        self._seconds = inf  # that the order answered last took, from when it was given
        self._passed = 0
        """The first order that ranks may still have to take, recalled ones included."""

        self._granted_last: dict[int, int] = {}
        """By rank: the order for which it was last granted memory, which it needs once."""

    def __len__(self) -> int:
        """How many are under way."""
        return len(self.orders)

    @property
    def load(self) -> int | None:
        """How many are under way; None if the replica takes no more now."""
        if self._closed or self._next_weights is not None:
            return None
        orders = self.orders
        if not orders:
            return 0
        return len(orders) if self._has_room() else None

    @property
    def ahead(self) -> bool:
        """Whether some were given ahead."""
        return self._ahead and len(self.orders) > self._stages

    @property
    def first(self) -> InflightOrder | None:
        """The oldest."""
        return self.orders[0] if self.orders else None

    def close(self) -> None:
        """Take no more."""
        self._closed = True

    def give(self, requests: list[Request]) -> Batch:
        """Give requests to the ranks as one batch; `load` must not be None.

        Raises OutOfMemory where there is no memory for inputs or outputs, RankmeshError where the
        order is too long.
        """
        first, outputs = requests[0], self._outputs
        several = len(requests) > 1
        inputs = self._interface.joined(requests) if several else first.inputs
        given = outputs.all if first.every_rank else outputs.once
        regions, rooms = outputs.allocate(given)
        order = inputs.order(given, rooms)
        number, slot = self._ring.given, slot_of(requests) if several else first.slot
        axes, begun = self._interface.axes, time.monotonic()
        batch = Batch(number, requests, inputs, outputs, axes, given, regions, begun, slot)
        self._append(batch, order, slot)
        return batch

    def switch(self, weights: ReplicaWeights) -> None:
        """Have the ranks compute with `weights`, which they have staged, after the orders that they
        have.
        """
        self._next_weights = weights
        self.switching = True
        self.order_switch()

    def order_switch(self) -> None:
        """Order the switch that is due, if one is, as soon as the ring has room for it."""
        if self._next_weights is None or self._closed or self.orders and not self._has_room():
            return
        order = encode_order(Switch(self._next_weights.generation))
        self.weights_version = self._next_weights.version
        self._next_weights = None
        self._append(WeightSwitch(self._ring.given, time.monotonic()), order, NO_SLOT)

    def batch_of(self, request: Request) -> Batch | None:
        """The batch of a request; None where the ranks do not have it."""
        for order in self.orders:
            if isinstance(order, Batch) and request in order.requests:
                return order
        return None

    def recall(self, request: Request | None = None) -> Batch | None:
        """Take back the batch that was given ahead last, if no rank has begun and, where given, it
        has `request`.
        """
        if not self.ahead:
            return None
        batch = self.orders[-1]
        if not isinstance(batch, Batch) or request is not None and request not in batch.requests:
            return None
        if not self._ring.recall(batch.number):
            return None
        self.orders.pop()
        return batch

    def withdraw(self) -> list[InflightOrder]:
        """Remove all orders: the ranks take none any more."""
        orders = list(self.orders)
        self.orders.clear()
        self._closed = True
        return orders

    def abandon(self, request: Request) -> None:
        """No thread waits for a request any more: the ranks ring instead."""
        batch = self.batch_of(request)
        if batch is not None and self._is_given(batch):
            self._ring.abandon(batch.number)

    def wait(self, slot: int) -> None:
        """Wait at a slot, which answers of the ranks notify; without a lock."""
        self._ring.wait(slot)

    def remove(self, order: InflightOrder) -> None:
        """Remove an order however it was answered."""
        if order in self.orders:
            self._leave(order)

    def finish(self, order: InflightOrder) -> bool:
        """Remove an order that all ranks have carried out without an error, and accept their
        answers; whether it is one.
        """
        answers = self._ring.answers(order.number) if self._is_given(order) else None
        if answers is None or answers and any(answer.error for answer in answers.values()):
            return False
        order.accept(answers)
        self._leave(order)
        self._seconds = time.monotonic() - order.begun
        return True

    def answers(self, order: InflightOrder) -> dict[int, Answer]:
        """By rank: what has been answered so far. Ranks that need memory for outputs get it."""
        if not self._is_given(order):
            return {}
        found = {}
        for rank in range(self._ring.world_size):
            state = self._ring.state(order.number, rank)
            if state is OrderState.NEEDS_ROOM:
                self._ring.grant(order.number, rank, self._granted(order, rank))
            elif state is OrderState.ANSWERED:
                found[rank] = self._ring.answer(order.number, rank)
        return found

    @property
    def world_size(self) -> int:
        """How many ranks carry out each order."""
        return self._ring.world_size

    def has_answers(self, order: InflightOrder) -> bool:
        """Whether some rank has answered an order, or asks for memory."""
        return self._is_given(order) and self._ring.has_news(order.number)

    def _append(self, order: InflightOrder, encoded: bytes, slot: int) -> None:
        self.orders.append(order)  # first: it may be answered before the ring returns
        try:
            self._ring.give(order.number, encoded, slot)
        except BaseException:  # also an interrupt of the caller's thread
            if self._ring.given == order.number:
                self.orders.pop()
            raise

    def _leave(self, order: InflightOrder) -> None:
        """All ranks have carried out an order."""
        self.orders.remove(order)
        self._passed = max(self._passed, order.number + 1)
        self.completed = self.completed or isinstance(order, Batch)

    def _has_room(self) -> bool:
        """Whether the ring has room for another order; not behind a batch that takes long."""
        first = self.orders[0]
        under_way = self._ring.given - min(first.number, self._passed)
        if under_way < self._stages:
            return True
        if not self._ahead:
            return False
        seconds = max(self._seconds, time.monotonic() - first.begun)
        most = MOST_AHEAD if seconds < QUICK_SECONDS else self._most_ahead(seconds)
        return under_way < self._stages + most

    def _most_ahead(self, seconds: float) -> int:
        """How many orders a rank may have ahead, where one takes so long from when it is given, and
        is not quick.

        A rank that is far away gets as many more as it could carry out while one is under way.
        """
        trip = self._ring.round_trip
        own = seconds - trip
        if own < QUICK_SECONDS:
            return MOST_AHEAD
        return max(int(own < BRIEF_SECONDS), min(MOST_AHEAD, int(trip / own)))

    def _is_given(self, order: InflightOrder) -> bool:
        """Whether the slot of the ring has this order, which is under way."""
        return self._ring.given > order.number

    def _granted(self, order: InflightOrder, rank: int) -> OutputBuffer:
        """As much memory as a rank needs.

        None where there is no memory: the rank makes an error of it, which is its answer.
        """
        needed = self._ring.answer(order.number, rank).needed
        before = order.regions.get(rank) if isinstance(order, Batch) else None
        again = self._granted_last.get(rank) == order.number
        if not isinstance(order, Batch) or before is None or needed <= before.size or again:
            text = f"asked for room of {needed} bytes, which its request does not need"
            raise InvalidRankData(rank, text)
        self._granted_last[rank] = order.number
        try:
            region = self._outputs.allocate_again(order.given.by_rank[rank], needed)
        except OutOfMemory:
            return _NO_BUFFER
        order.regions[rank] = region
        return OutputBuffer(region.offset, region.size)
