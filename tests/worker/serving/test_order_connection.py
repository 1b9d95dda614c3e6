"""The orders of a rank that come from another host, over a connection of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest
from processes import PATIENCE

from rankmesh.comm.agents.messages import (
    encode_from_agent,
    encode_to_agent,
)
from rankmesh.comm.agents.order_messages import (
    FromRank,
    GivenTensor,
    GrantRoom,
    OrderAnswer,
    OrderDone,
    OtherOrder,
    RankFault,
    ReleaseOrder,
    RunOrder,
    ToRank,
    decode_from_rank,
    decode_to_rank,
)
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.orders import (
    AS_ORDERED,
    Answer,
    ModelReport,
    OutputBuffer,
    Run,
    Stop,
    TensorRef,
)
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.comm.transport.frame_stream import FrameStream, StreamEnded
from rankmesh.comm.transport.seal import Seal, SealKeys
from rankmesh.worker.serving.order_connection import OrderConnection

pytestmark = [pytest.mark.pure, pytest.mark.timeout(PATIENCE)]
X, Y, OPEN = (
    TensorSpec(name, "float32", shape) for name, shape in (("x", (4,)), ("y", (4,)), ("z", (-1,)))
)
FLOATS, BYTES = np.dtype("f4"), np.dtype("u1")
TENSOR = np.arange(4, dtype="f4")
MOST = 1 << 23
RANK = 0


class Ends:
    """The orchestrator's end, and that of the rank with its memory."""

    def __init__(self, clear: bool) -> None:
        left, right = socket.socketpair()
        keys = SealKeys.new()
        here = Seal(keys.listener), Seal(keys.caller)
        there = Seal(keys.caller), Seal(keys.listener)
        self.orchestrator = FrameStream[ToRank, FromRank](
            left, here, clear, encode_to_agent, decode_from_rank
        )
        stream = FrameStream[FromRank, ToRank](
            right, there, clear, encode_from_agent, decode_to_rank
        )
        self.arena = OwnedArena(0, MOST)
        report = ModelReport("m", (X,), (Y, OPEN), (0, 1))
        self.rank = OrderConnection(stream, self.arena, report, RANK, brief=True)
        self.streams = self.orchestrator, stream

    def order(self, number: int, *given: int, size: int = 4, room: int = 64) -> None:
        """Send a request for some outputs."""
        message = RunOrder(7, number, ((size,),), (room,), (given,))
        self.orchestrator.send(message, [np.resize(TENSOR, size).data.cast("B")])

    def take(self, number: int) -> Run:
        """Take an order, which is a request."""
        order = self.rank.take(number, RANK)
        assert isinstance(order, Run)
        return order

    def answered(self) -> tuple[FromRank, bytes]:
        """The next message of the rank, and the bytes behind it."""
        message, size = self.orchestrator.receive()
        data = bytearray(size)
        if size:
            self.orchestrator.read_into(memoryview(data))
        return message, bytes(data)

    def close(self) -> None:
        """End all."""
        for stream in self.streams:
            stream.free()
        self.arena.close()


@pytest.fixture(params=[True, False], ids=["clear", "sealed"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    ends = Ends(request.param)
    yield ends
    ends.close()


def test_a_request_is_answered_with_the_bytes_of_its_room(ends: Ends) -> None:
    for number in range(3):
        ends.order(number, 0)
        order = ends.take(number)
        (x,), room = order.inputs, order.part(RANK).room
        given = ends.arena.view(x.offset, FLOATS, (4,), 16)
        np.testing.assert_array_equal(given, TENSOR)
        ends.arena.view(room.offset, FLOATS, (4,), 16)[...] = -given
        ends.rank.reply(number, RANK, AS_ORDERED)
        message, data = ends.answered()
        assert message == OrderDone(7, number, [64])
        np.testing.assert_array_equal(np.frombuffer(data, "f4")[:4], -TENSOR)


def test_the_same_places_are_the_same_order(ends: Ends) -> None:
    taken = []
    for number in range(2):
        ends.order(number, 0)
        taken.append(ends.take(number))
        ends.rank.reply(number, RANK, AS_ORDERED)
        ends.answered()
    assert taken[0] is taken[1]


def test_an_input_that_is_handed_on_is_told_by_its_number(ends: Ends) -> None:
    ends.order(0, 1)
    (x,) = ends.take(0).inputs
    ends.rank.reply(0, RANK, Answer([TensorRef(x.offset, (4,))]))
    message, data = ends.answered()
    assert message == OrderAnswer(7, 0, RANK, Answer([]), [GivenTensor(0, (4,), 0)]) and not data


def test_a_room_is_granted_behind_orders_that_come_before(ends: Ends) -> None:
    ends.order(0, 1)
    ends.order(1, 0)
    ends.orchestrator.send(ReleaseOrder(7, 0))
    ends.orchestrator.send(GrantRoom(7, 0, RANK, OutputBuffer(0, 4096)))
    ends.take(0)
    room = ends.rank.ask_for_room(0, RANK, Answer([], needed=4096))
    assert ends.answered()[0] == OrderAnswer(7, 0, RANK, Answer([], needed=4096))
    ends.arena.view(room.offset, BYTES, (4096,), 4096)[...] = 9
    ends.rank.reply(0, RANK, Answer([TensorRef(room.offset, (1024,))]))
    message, data = ends.answered()
    assert message == OrderAnswer(7, 0, RANK, Answer([]), [GivenTensor(0, (1024,))])
    assert data == b"\t" * 4096
    assert ends.take(1).part(RANK).positions == (0,)


def test_a_request_without_memory_fails_the_rank_after_those_before_it(ends: Ends) -> None:
    ends.order(0, 1)
    ends.order(1, 0, size=MOST // 4)
    ends.orchestrator.send(GrantRoom(7, 0, RANK, OutputBuffer(0, 64)))
    ends.take(0)
    ends.rank.ask_for_room(0, RANK, Answer([], needed=64))
    ends.rank.reply(0, RANK, Answer([], error="InputError"))
    assert [type(ends.answered()[0]) for _ in range(2)] == [OrderAnswer, OrderAnswer]
    with pytest.raises(StreamEnded, match="do not fit"):
        ends.rank.take(1, RANK)
    fault, _ = ends.answered()
    assert isinstance(fault, RankFault) and fault.text.startswith("has no memory for a request")


def test_outputs_without_memory_fail_the_rank_and_no_answer_follows(ends: Ends) -> None:
    ends.order(0, 1)
    ends.orchestrator.send(GrantRoom(7, 0, RANK, OutputBuffer(0, 2 * MOST)))
    ends.take(0)
    with pytest.raises(StreamEnded, match="do not fit"):
        ends.rank.ask_for_room(0, RANK, Answer([], needed=2 * MOST))
    ends.rank.reply(0, RANK, Answer([], error="RankFailed"))
    assert [type(ends.answered()[0]) for _ in range(2)] == [OrderAnswer, RankFault]
    ends.streams[1].close()
    with pytest.raises(StreamEnded):
        ends.answered()


def test_the_last_order_and_the_end_are_told_apart(ends: Ends) -> None:
    ends.orchestrator.send(OtherOrder(7, 0, Stop()))
    assert ends.rank.take(0, RANK) == Stop()
    ends.orchestrator.close()
    with pytest.raises(StreamEnded, match="has closed the connection"):
        ends.rank.take(1, RANK)


def test_an_order_out_of_turn_ends_the_connection(ends: Ends) -> None:
    ends.order(1, 0)
    with pytest.raises(StreamEnded, match="order 1 came where 0 was the next one"):
        ends.rank.take(0, RANK)
