"""Order connection: brings a rank its orders from another host, and takes its answers there.

The rank is the only one of its replica. The tensors of an order get places in memory of the rank.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

from ...comm.agents.messages import encode_from_agent
from ...comm.agents.order_messages import (
    FromRank,
    GrantRoom,
    OrderAnswer,
    OrderDone,
    OtherOrder,
    RankFault,
    ReleaseOrder,
    RunOrder,
    ToRank,
    decode_to_rank,
)
from ...comm.agents.order_places import OrderPlaces
from ...comm.errors import OutOfMemory, RankFailed
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.serving.brief_watch import ConnectionWatch
from ...comm.serving.orders import (
    AS_ORDERED,
    KEPT_ORDERS,
    Answer,
    ModelReport,
    Order,
    OutputBuffer,
    OutputPart,
    Run,
    TensorRef,
)
from ...comm.serving.tensor_spec import TensorLayout, dtype_named
from ...comm.transport.frame_stream import FrameStream, StreamEnded
from ...comm.transport.stream_invitation import StreamInvitation
from ...comm.transport.tensor_socket import accept, caller_seals, prepare_watched

_BYTES = np.dtype(np.uint8)


class _Order(NamedTuple):
    """An order that has arrived, with its incarnation and memory."""

    incarnation: int
    number: int
    order: Order
    places: OrderPlaces = OrderPlaces(None, None, None)


class _Unplaced(NamedTuple):
    """An order that has found no memory."""

    incarnation: int
    number: int
    error: OutOfMemory


class OrderConnection:
    """See OrderSource. For the thread of the orders."""

    def __init__(
        self,
        stream: FrameStream[FromRank, ToRank],
        arena: OwnedArena,
        report: ModelReport,
        rank: int,
        brief: bool,
    ) -> None:
        """`brief`: the rank has a core of its own, and looks for orders before it sleeps."""
        self._stream = stream
        self._arena = arena
        self._rank = rank
        self._inputs = [dtype_named(spec.stored.dtype) for spec in report.inputs]
        self._stored = [spec.stored for spec in report.outputs]
        self._arrived: deque[_Order | _Unplaced] = deque()
        self._current: _Order | None = None
        self._granted: GrantRoom | None = None
        self._failed = False
        self._layout = lru_cache(KEPT_ORDERS)(self._laid_out)
        self._run_of = lru_cache(KEPT_ORDERS)(_run)
        self._used = lru_cache(KEPT_ORDERS)(self._used_as_ordered)
        stream.wait_by(ConnectionWatch(stream.fileno(), brief).look)

    @classmethod
    def opened(
        cls,
        invitation: StreamInvitation,
        arena: OwnedArena,
        report: ModelReport,
        rank: int,
        brief: bool,
    ) -> OrderConnection:
        """Connect. Raises RankFailed."""
        try:
            sock = accept(invitation)
            prepare_watched(sock)
        except OSError as error:
            raise RankFailed(
                f"the orchestrator's port {invitation.host}:{invitation.port} cannot be reached "
                f"for requests: {error}. A firewall must let ranks reach all its TCP ports."
            ) from error
        stream: FrameStream[FromRank, ToRank] = FrameStream(
            sock, caller_seals(invitation), invitation.clear, encode_from_agent, decode_to_rank
        )
        return cls(stream, arena, report, rank, brief)

    def take(self, number: int, rank: int) -> Order:
        """See OrderSource. Raises StreamEnded at the end of the connection."""
        self._current = None  # its memory is free
        while not self._arrived:
            self._receive()
        arrived = self._arrived.popleft()
        if arrived.number != number:
            raise StreamEnded(f"order {arrived.number} came where {number} was the next one")
        if isinstance(arrived, _Unplaced):
            raise self._lacking(arrived.incarnation, arrived.error)
        self._current = arrived
        return arrived.order

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """See OrderSource."""
        order = self._current
        if order is None or self._failed:
            return
        incarnation, _, run, (_, _, room) = order
        part = run.part(rank) if isinstance(run, Run) else OutputPart(rank, (), OutputBuffer(0, 0))
        if answer is AS_ORDERED:
            used = 0 if room is None else self._used(part.positions)
            self._stream.send(OrderDone(incarnation, number, [used]), _bytes(room, used))
            return
        dtypes = [dtype_named(self._stored[position].dtype) for position in part.positions]
        given, used = order.places.given(rank, answer.outputs, dtypes)
        bare = msgspec.structs.replace(answer, outputs=[])
        message = OrderAnswer(incarnation, number, rank, bare, given)
        self._stream.send(message, _bytes(room, used))

    def hold(self, number: int, rank: int) -> None:
        """See OrderSource: there are no others."""

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> OutputBuffer:
        """See OrderSource. Orders that arrive before the room are kept. Raises StreamEnded."""
        order = self._current
        assert order is not None
        self._granted = None
        self._stream.send(OrderAnswer(order.incarnation, number, rank, answer))
        while self._granted is None:
            self._receive()
        size = self._granted.room.size
        if not size:
            return OutputBuffer(0, 0)
        try:
            room = self._arena.allocate(size)
        except OutOfMemory as error:
            raise self._lacking(order.incarnation, error) from error
        self._current = order._replace(places=order.places._replace(room=room))
        return OutputBuffer(room.offset, size)

    def _receive(self) -> None:
        message, _ = self._stream.receive()
        match message:
            case RunOrder():
                self._arrived.append(self._placed(message))
            case OtherOrder(incarnation, number, order):
                self._arrived.append(_Order(incarnation, number, order))
            case GrantRoom():
                self._granted = message
            case ReleaseOrder():
                pass

    def _placed(self, message: RunOrder) -> _Order | _Unplaced:
        layout = self._layout(message.shapes)
        try:
            inputs = self._arena.allocate(layout.size)
            room = self._arena.allocate(message.rooms[0]) if message.rooms[0] else None
        except OutOfMemory as error:
            for part in layout.parts:
                self._stream.skip(part.size)
            return _Unplaced(message.incarnation, message.number, error)
        for part in layout.parts:
            if part.size:
                self._stream.read_into(inputs.view(part.offset, _BYTES, (part.size,)).data)
        place = (0, 0) if room is None else (room.offset, message.rooms[0])
        run = self._run_of(layout, inputs.offset, self._rank, message.given[0], *place)
        places = OrderPlaces(layout, inputs, room)
        return _Order(message.incarnation, message.number, run, places)

    def _lacking(self, incarnation: int, error: OutOfMemory) -> StreamEnded:
        """Tell the orchestrator that the rank has no memory; after that it sends no answers."""
        self._failed = True
        text = f"has no memory for a request: {error}"
        self._stream.send(RankFault(incarnation, self._rank, text))
        return StreamEnded(str(error))

    def _laid_out(self, shapes: tuple[tuple[int, ...], ...]) -> TensorLayout:
        return TensorLayout.of(shapes, self._inputs)

    def _used_as_ordered(self, positions: tuple[int, ...]) -> int:
        """The bytes of outputs whose shapes this rank has reported."""
        layout = TensorLayout.declared([self._stored[position] for position in positions])
        return 0 if layout is None else layout.size


def _run(
    layout: TensorLayout, inputs: int, rank: int, positions: tuple[int, ...], room: int, size: int
) -> Run:
    """The same object for the same places, so that a model binds them once."""
    refs = tuple([TensorRef(inputs + part.offset, part.shape) for part in layout.parts])
    return Run(refs, (OutputPart(rank, positions, OutputBuffer(room, size)),))


def _bytes(room: Region | None, used: int) -> list[memoryview]:
    return [] if room is None or not used else [room.array(0, _BYTES, (used,)).data]
