"""Hosted orders: carries an orchestrator's orders to ranks of this host, and their answers back.

The tensors of an order get places in the memory of this host, for as long as it is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Protocol

import msgspec
import numpy as np

from ...comm.agents.order_messages import (
    GivenTensor,
    GrantRoom,
    OrderAnswer,
    OrderDone,
    OtherOrder,
    RankFault,
    RunOrder,
)
from ...comm.agents.order_places import OrderPlaces
from ...comm.errors import OutOfMemory
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.request_memory.tensor_arena import aligned
from ...comm.serving.order_state import OrderState
from ...comm.serving.orders import (
    AS_ORDERED,
    KEPT_ORDERS,
    Answer,
    GivenOutputs,
    InvalidRankData,
    ModelReport,
    OutputBuffer,
    TensorRef,
    encode_order,
    encoded_run,
)
from ...comm.serving.ring import Ring
from ...comm.serving.tensor_spec import TensorLayout, dtype_named

_BYTES = np.dtype(np.uint8)
_NOWHERE = (0, 0)


@dataclass(slots=True)
class _Order:
    """An order under way; `asked` are the ranks that need other rooms, `left` that owe an answer.

    `layout` and `inputs` are None for an order without tensors in memory of the agent's own.
    """

    number: int
    given: Mapping[int, tuple[int, ...]]
    layout: TensorLayout | None
    inputs: Region | None
    rooms: dict[int, Region | None]
    left: set[int]
    asked: set[int]

    def places(self, rank: int) -> OrderPlaces:
        """Where the tensors of a rank lie."""
        return OrderPlaces(self.layout, self.inputs, self.rooms.get(rank))


class TensorSource(Protocol):
    """Where the tensors behind a message come from: a frame stream."""

    def read_into(self, room: memoryview) -> None:
        """Read the next tensor, which is as long as `room`."""

    def skip(self, size: int) -> None:
        """Read the next tensor, of `size` bytes, and forget it."""


class HostedOrders:
    """The orders of an incarnation's ranks here. One thread takes messages, any thread answers.

    Where an order finds no memory the incarnation is given up, as its ranks cannot have those
    behind it either; but only after the answers to those before it, which are not to blame.
    """

    def __init__(
        self,
        incarnation: int,
        ranks: Sequence[int],
        ring: Ring,
        arena: OwnedArena,
        slot: int,
        send: Callable[[OrderAnswer | OrderDone | RankFault, Sequence[memoryview]], None],
    ) -> None:
        """Ranks notify `slot` of answers.

        `send` takes a message for the orchestrator, and the bytes that follow it.
        """
        self._incarnation = incarnation
        self._ranks = ranks
        self._ring = ring
        self._arena = arena
        self._slot = slot
        self._send = send
        self._orders: dict[int, _Order] = {}
        self._outputs: dict[int, list[tuple[np.dtype[np.generic], int]]] = {}
        self._layout = _layouts([])
        self._given_outputs = lru_cache(KEPT_ORDERS)(partial(_by_rank, ranks))
        self._answering = threading.Lock()
        self._closed = False
        self._full = ""
        """Why an order has found no memory."""

    def close(self) -> None:
        """Send no more answers."""
        with self._answering:
            self._closed = True

    def reported(self, rank: int, report: ModelReport) -> None:
        """Note the report of a rank, before it takes orders."""
        self._layout = _layouts([dtype_named(spec.stored.dtype) for spec in report.inputs])
        self._outputs[rank] = [
            (dtype, aligned(0 if shape is None else dtype.itemsize * prod(map(abs, shape))))
            for spec in (one.stored for one in report.outputs)
            for dtype, shape in ((dtype_named(spec.dtype), spec.shape),)
        ]

    def run(self, order: RunOrder, source: TensorSource) -> None:
        """Give the ranks a request, whose inputs come from `source`."""
        layout = self._layout(order.shapes)
        try:
            inputs = self._memory(layout.size)
            rooms = {
                rank: self._memory(size) if size else None
                for rank, size in zip(self._ranks, order.rooms, strict=True)
            }
        except OutOfMemory:
            for part in layout.parts:
                source.skip(part.size)
            self._refuse()
            return
        for offset, _, _, size in layout.parts:
            if size:
                source.read_into(inputs.view(offset, _BYTES, (size,)).data)
        given = self._given_outputs(order.given)
        places = tuple([_place(rooms[rank]) for rank in given.by_rank])
        encoded = encoded_run(layout, inputs.offset, given, places)
        self._orders[order.number] = _Order(
            order.number, given.by_rank, layout, inputs, rooms, set(self._ranks), set()
        )
        self._ring.give(order.number, encoded, self._slot)

    def give(self, order: OtherOrder) -> None:
        """Give the ranks an order as it is."""
        if self._full:
            self._refuse()
            return
        left = set(self._ranks)
        self._orders[order.number] = _Order(order.number, {}, None, None, {}, left, set())
        self._ring.give(order.number, encode_order(order.order), self._slot)

    def grant(self, grant: GrantRoom) -> None:
        """Give a rank the room for outputs that it has asked for."""
        order, room = self._orders[grant.number], grant.room
        if order.layout is not None:
            try:
                region = self._memory(room.size) if room.size else None
            except OutOfMemory:
                self._give_up()
                return
            order.rooms[grant.rank] = region
            room = OutputBuffer(_place(region)[0], room.size)
        order.asked.discard(grant.rank)
        self._ring.grant(grant.number, grant.rank, room)

    def answer(self) -> None:
        """Send the answers that have come; nothing, once closed. Raises InvalidRankData."""
        with self._answering:
            if not self._closed:
                self._answer()

    def _answer(self) -> None:
        for order in list(self._orders.values()):
            if order.number >= self._ring.given:  # its slot still has an earlier one
                continue
            if not self._pass_on_all(order):
                for rank in sorted(order.left):
                    self._look(order, rank)
            if not order.left:
                del self._orders[order.number]
        if self._full and not self._orders:
            self._give_up()

    def _refuse(self) -> None:
        with self._answering:
            if not self._orders and not self._closed:
                self._give_up()

    def _give_up(self) -> None:
        text = f"has no memory for a request: {self._full}"
        self._send(RankFault(self._incarnation, self._ranks[0], text), ())

    def _pass_on_all(self, order: _Order) -> bool:
        """Send the answers of all ranks as one message, where all have answered as ordered."""
        ranks = self._ranks
        if len(order.left) < len(ranks) or self._ring.answers(order.number) != {}:
            return False
        used = [self._used(order, rank) for rank in ranks]
        done = OrderDone(self._incarnation, order.number, [len(one) for one in used])
        order.left.clear()
        self._send(done, [one for one in used if one])
        return True

    def _used(self, order: _Order, rank: int) -> memoryview:
        """The part of its room that a rank has used, which has answered AS_ORDERED."""
        room = order.rooms.get(rank)
        if room is None or rank not in order.given:
            return memoryview(b"")
        size = sum(self._outputs[rank][position][1] for position in order.given[rank])
        return room.array(0, _BYTES, (size,)).data

    def _look(self, order: _Order, rank: int) -> None:
        state = self._ring.state(order.number, rank)
        if state is OrderState.ANSWERED:
            order.left.discard(rank)
            self._pass_on(order, rank, self._ring.answer(order.number, rank))
        elif state is OrderState.NEEDS_ROOM and rank not in order.asked:
            order.asked.add(rank)
            asked = Answer([], needed=self._ring.answer(order.number, rank).needed)
            self._send(OrderAnswer(self._incarnation, order.number, rank, asked), ())

    def _pass_on(self, order: _Order, rank: int, answer: Answer) -> None:
        if answer is AS_ORDERED:
            outputs = self._used(order, rank)
            message = OrderAnswer(self._incarnation, order.number, rank, None)
            self._send(message, (outputs,) if outputs else ())
            return
        if order.layout is None:
            self._send(OrderAnswer(self._incarnation, order.number, rank, answer), ())
            return
        given, used = self._given(order, rank, answer.outputs)
        bare = msgspec.structs.replace(answer, outputs=[])
        message = OrderAnswer(self._incarnation, order.number, rank, bare, given)
        room = order.rooms[rank] if used else None
        tensors = () if room is None else (room.array(0, _BYTES, (used,)).data,)
        self._send(message, tensors)

    def _given(
        self, order: _Order, rank: int, outputs: Sequence[TensorRef]
    ) -> tuple[list[GivenTensor], int]:
        """The outputs where they lie in the room or in inputs, and how much of the room is used."""
        given = order.given.get(rank, ())
        if len(outputs) > len(given):
            raise InvalidRankData(rank, f"answered with {len(outputs)} outputs")
        dtypes = [self._outputs[rank][position][0] for position in given]
        return order.places(rank).given(rank, outputs, dtypes)

    def _memory(self, size: int) -> Region:
        """Memory of an order. Raises OutOfMemory, as it does for all orders from then on."""
        if self._full:
            raise OutOfMemory(self._full)
        try:
            return self._arena.allocate(size)
        except OutOfMemory as error:
            self._full = str(error)
            raise


def _layouts(
    dtypes: Sequence[np.dtype[np.generic]],
) -> Callable[[tuple[tuple[int, ...], ...]], TensorLayout]:
    """The layout of tensors of these types by their shapes. No method: it would keep the ring."""
    return lru_cache(KEPT_ORDERS)(lambda shapes: TensorLayout.of(shapes, dtypes))


def _by_rank(ranks: Sequence[int], given: tuple[tuple[int, ...], ...]) -> GivenOutputs:
    """The same object for equal outputs, so that their orders are encoded once."""
    parts = zip(ranks, given, strict=True)
    return GivenOutputs({rank: positions for rank, positions in parts if positions})


def _place(region: Region | None) -> tuple[int, int]:
    return _NOWHERE if region is None else (region.offset, region.size)
