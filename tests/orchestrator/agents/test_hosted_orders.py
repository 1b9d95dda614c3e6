"""Orders on an agent: what it sends of the outputs that ranks gave as they were ordered."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pytest

from rankmesh.comm.agents.order_messages import (
    OrderAnswer,
    OrderDone,
    OtherOrder,
    RankFault,
    RunOrder,
)
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.caller_slots import NO_SLOT, CallerSlots
from rankmesh.comm.serving.orders import (
    AS_ORDERED,
    Answer,
    ModelReport,
    OutputBuffer,
    OutputPart,
    Run,
    Switch,
    TensorRef,
)
from rankmesh.comm.serving.ring import Ring
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.hosted.hosted_orders import HostedOrders

pytestmark = pytest.mark.pure
X = TensorSpec("x", "float32", (2,))
SCALAR = TensorSpec("sum", "float32", ())


class Tensors:
    """Gives ones for each tensor, and counts the bytes that were asked for."""

    def __init__(self) -> None:
        self.read = self.skipped = 0

    def read_into(self, room: memoryview) -> None:
        room[:] = np.ones(len(room) // 4, "f4").tobytes()
        self.read += len(room)

    def skip(self, size: int) -> None:
        self.skipped += size


@pytest.fixture
def parts() -> Iterator[tuple[Ring, OwnedArena]]:
    """A ring of one rank, and memory for tensors."""
    with ExitStack() as opened:
        fd, bell = Ring.create(1, 2), os.eventfd(0, os.EFD_NONBLOCK)
        opened.callback(os.close, fd)
        opened.callback(os.close, bell)
        slots, arena = CallerSlots(CallerSlots.create(), spare=False), OwnedArena(0, 1 << 24)
        opened.callback(slots.close)
        opened.callback(arena.close)
        yield Ring(fd, bell, slots), arena


def test_a_scalar_given_as_ordered_is_sent(parts: tuple[Ring, OwnedArena]) -> None:
    ring, arena = parts
    sent: list[bytes] = []

    def send(message: OrderAnswer | OrderDone, tensors: Sequence[memoryview]) -> None:
        assert isinstance(message, OrderDone)
        sent.extend(map(bytes, tensors))

    orders = HostedOrders(7, [0], ring, arena, NO_SLOT, send)
    orders.reported(0, ModelReport("m", (X,), (SCALAR, SCALAR), (0, 1)))
    orders.run(RunOrder(7, 0, ((2,),), (128,), ((0, 1),)), Tensors())
    order = ring.take(0, 0)
    assert isinstance(order, Run)
    for at, value in ((0, 5.0), (64, 6.0)):
        arena.view(order.part(0).room.offset + at, np.dtype("f4"), (), 4)[...] = value
    ring.reply(0, 0, AS_ORDERED)
    orders.answer()
    (data,) = sent
    assert [np.frombuffer(data, "f4")[at // 4] for at in (0, 64)] == [5.0, 6.0]


def test_a_request_that_finds_no_memory_is_refused_with_all_behind_it(
    parts: tuple[Ring, OwnedArena],
) -> None:
    ring, arena = parts
    sent: list[object] = []
    orders = HostedOrders(7, [0], ring, arena, NO_SLOT, lambda message, _: sent.append(message))
    orders.reported(0, ModelReport("m", (X,), (SCALAR,), (0,)))
    tensors = Tensors()
    large = 1 << 22  # numbers, of which the arena takes no more than 2**24 bytes in all
    orders.run(RunOrder(7, 0, ((2,),), (64,), ((0,),)), tensors)
    for number, size in ((1, 2 * large), (2, 2)):
        orders.run(RunOrder(7, number, ((size,),), (64,), ((0,),)), tensors)
    orders.give(OtherOrder(7, 3, Switch(1)))
    assert (tensors.read, tensors.skipped) == (8, 4 * (2 * large + 2))
    assert ring.given == 1 and not sent  # the request before it is not to blame
    ring.reply(0, 0, AS_ORDERED)
    orders.answer()
    done, fault = sent
    assert isinstance(done, OrderDone) and isinstance(fault, RankFault)
    assert "no memory for a request" in fault.text and "do not fit" in fault.text


def test_orders_in_shared_memory_come_and_go_as_they_are(parts: tuple[Ring, OwnedArena]) -> None:
    ring, arena = parts
    sent: list[object] = []

    def send(message: object, tensors: Sequence[memoryview]) -> None:
        assert not tensors
        sent.append(message)

    orders = HostedOrders(7, [0], ring, arena, NO_SLOT, send)
    orders.reported(0, ModelReport("m", (X,), (SCALAR,), (0,)))
    run = Run((TensorRef(1 << 30, (2,)),), (OutputPart(0, (0,), OutputBuffer(1 << 31, 64)),))
    for number, answer in enumerate((AS_ORDERED, Answer([TensorRef(1 << 31, ())]))):
        orders.give(OtherOrder(7, number, run))
        taken = ring.take(number, 0)
        assert isinstance(taken, Run)
        assert (taken.inputs, taken.parts) == (run.inputs, run.parts)
        ring.reply(number, 0, answer)
        orders.answer()
    assert sent == [OrderDone(7, 0, [0]), OrderAnswer(7, 1, 0, answer)]
