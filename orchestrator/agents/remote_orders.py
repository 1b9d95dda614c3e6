"""Remote orders: sends orders of an incarnation to an agent, and takes the answers that come."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from ...comm.agents.order_messages import (
    GrantRoom,
    OrderAnswer,
    OrderDone,
    OtherOrder,
    ReleaseOrder,
    RunOrder,
    ToRank,
)
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import (
    AS_ORDERED,
    KEPT_ORDERS,
    InvalidRankData,
    ModelReport,
    Order,
    OutputBuffer,
    Run,
    TensorRef,
)
from ...comm.serving.ring import Ring
from ...comm.serving.tensor_spec import dtype_named

_BYTES = np.dtype(np.uint8)
_NO_ROOM = OutputBuffer(0, 0)


@dataclass(slots=True)
class _Given:
    """An order that was sent: its inputs' places, and the room for outputs of each rank there."""

    number: int
    inputs: Sequence[TensorRef]
    rooms: dict[int, OutputBuffer]
    end: int = 0
    """How many bytes were to be sent when all of it was."""


class OrderRoute(Protocol):
    """The connection to an agent, or to its one rank, as its orders see it; for any thread."""

    def send(self, message: ToRank, tensors: Sequence[memoryview]) -> None:
        """Send a message and the tensors that follow."""

    def wait(self, slots: CallerSlots, slot: int) -> None:
        """See OrderOutlet.wait."""

    @property
    def given(self) -> int:
        """How many bytes were to be sent so far."""

    @property
    def carried(self) -> tuple[int, int]:
        """How many bytes have arrived at the other end, and at this one."""

    @property
    def round_trip(self) -> float:
        """See OrderOutlet."""


class _Prepared(NamedTuple):
    """The message for an order, but for its number; its tensors; and the rooms for outputs."""

    shapes: tuple[tuple[int, ...], ...]
    rooms: tuple[int, ...]
    given: tuple[tuple[int, ...], ...]
    tensors: list[memoryview]
    places: dict[int, OutputBuffer]


class RemoteOrders:
    """See OrderOutlet. Any thread gives orders; that of the agent's messages takes answers."""

    def __init__(
        self,
        incarnation: int,
        ranks: Sequence[int],
        arena: OwnedArena,
        route: OrderRoute,
        shared: bool = False,
    ) -> None:
        """`ranks` are those of the agent. `shared`: they have the arena themselves."""
        self.wait = route.wait
        self._route = route
        self._reading = False
        self._shared = shared
        self._incarnation = incarnation
        self._ranks = ranks
        self._arena = arena
        self._send = route.send
        self._sizes: list[int] = []
        self._given: dict[int, _Given] = {}
        self._depth = 0
        self._prepared = lru_cache(KEPT_ORDERS)(self._prepare)
        self._bytes = lru_cache(KEPT_ORDERS)(self._view)

    def begin(self, ring: Ring) -> None:
        """Note the ring that answers are written into, as long as there is one.

        It refers to this object, and its memory is to be freed with it.
        """
        self._ring = weakref.ref(ring)
        self._depth = ring.depth

    def reported(self, report: ModelReport) -> None:
        """Note the report of a rank, before any request is given."""
        self._sizes = [dtype_named(spec.stored.dtype).itemsize for spec in report.inputs]

    def give(self, number: int, order: Order) -> None:
        """See OrderOutlet.give."""
        if self._shared or not isinstance(order, Run):
            self._given[number % self._depth] = _Given(number, (), {})
            self._send(OtherOrder(self._incarnation, number, order), ())
            return
        sent = self._prepared(order)
        given = _Given(number, order.inputs, dict(sent.places))
        self._given[number % self._depth] = given
        message = RunOrder(self._incarnation, number, sent.shapes, sent.rooms, sent.given)
        self._send(message, sent.tensors)
        given.end = self._route.given

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """See OrderOutlet.grant."""
        self._given[number % self._depth].rooms[rank] = room
        self._send(GrantRoom(self._incarnation, number, rank, room), ())

    def release(self, number: int) -> None:
        """See OrderOutlet.release."""
        self._send(ReleaseOrder(self._incarnation, number), ())

    @property
    def round_trip(self) -> float:
        """See OrderOutlet."""
        return self._route.round_trip

    def carried(self, number: int) -> tuple[int | None, int | None]:
        """How much has arrived there while an order is on its way, and here while an answer is."""
        given = self._given.get(number % self._depth)
        if given is None or given.number != number:
            return None, None
        there, here = self._route.carried
        return there if there < given.end else None, here if self._reading else None

    def take(self, answer: OrderAnswer, size: int, read_into: Callable[[memoryview], None]) -> None:
        """Write an answer into the ring, and its `size` bytes where they belong.

        Raises InvalidRankData.
        """
        number, rank, told = answer.number, answer.rank, answer.answer
        given, ring = self._order(number, rank), self._ring()
        room = self._read(given, rank, size, read_into)
        if ring is None:
            return
        if told is None:
            ring.reply(number, rank, AS_ORDERED)
        elif told.needed:
            ring.need_room(number, rank, told)
        elif self._shared:
            ring.reply(number, rank, told)
        else:
            outputs = self._placed(answer, given, room)
            ring.reply(number, rank, msgspec.structs.replace(told, outputs=outputs))

    def finish(self, done: OrderDone, size: int, read_into: Callable[[memoryview], None]) -> None:
        """As `take`, of the answers of all ranks of the agent."""
        number, ranks, ring = done.number, self._ranks, self._ring()
        given = self._order(number, ranks[0])
        if len(done.sizes) != len(ranks) or sum(done.sizes) != size:
            raise InvalidRankData(
                ranks[0], f"sent {size} bytes for the outputs of {len(done.sizes)} ranks"
            )
        for rank, part in zip(ranks, done.sizes, strict=True):
            self._read(given, rank, part, read_into)
        for rank in reversed(ranks):  # each looks whether those before it have answered
            if ring is not None:
                ring.reply(number, rank, AS_ORDERED)

    def _order(self, number: int, rank: int) -> _Given:
        """An order that a rank has. Raises InvalidRankData."""
        given = self._given.get(number % self._depth)
        if given is None or given.number != number or rank not in self._ranks:
            raise InvalidRankData(
                self._ranks[0], f"answered order {number}, which it does not have"
            )
        return given

    def _read(
        self, given: _Given, rank: int, size: int, read_into: Callable[[memoryview], None]
    ) -> OutputBuffer:
        """Read outputs into the room of a rank, which is returned. Raises InvalidRankData."""
        room = given.rooms.get(rank, _NO_ROOM)
        if not 0 <= size <= room.size:
            raise InvalidRankData(rank, f"sent {size} bytes of outputs for a room of {room.size}")
        if size:
            self._reading = True
            read_into(self._bytes(room.offset, size))
            self._reading = False
        return room

    def _placed(self, answer: OrderAnswer, given: _Given, room: OutputBuffer) -> list[TensorRef]:
        """The outputs of an answer, in this host's memory."""
        outputs = []
        for one in answer.outputs:
            if one.input >= len(given.inputs):
                raise InvalidRankData(answer.rank, f"handed on input {one.input}")
            start = room.offset if one.input < 0 else given.inputs[one.input].offset
            outputs.append(TensorRef(start + one.offset, one.shape))
        return outputs

    def _prepare(self, order: Run) -> _Prepared:
        parts = [order.part(rank) for rank in self._ranks]
        return _Prepared(
            tuple([ref.shape for ref in order.inputs]),
            tuple([part.room.size for part in parts]),
            tuple([part.positions for part in parts]),
            [
                self._bytes(ref.offset, size * prod(ref.shape))
                for ref, size in zip(order.inputs, self._sizes, strict=True)
            ],
            {part.rank: part.room for part in parts},
        )

    def _view(self, offset: int, size: int) -> memoryview:
        return self._arena.view(offset, _BYTES, (size,), size).data
