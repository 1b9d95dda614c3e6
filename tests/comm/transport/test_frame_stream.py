"""Frame streams: messages and tensors arrive as they were sent, and nothing else is taken."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from rankmesh.comm.agents.messages import (
    EndIncarnation,
    ToAgent,
    decode_to_agent,
    encode_to_agent,
)
from rankmesh.comm.agents.order_messages import ReleaseOrder
from rankmesh.comm.transport.frame_stream import FrameStream, StreamEnded
from rankmesh.comm.transport.seal import Seal, SealKeys

pytestmark = pytest.mark.pure
Stream = FrameStream[ToAgent, ToAgent]


def streams(left: socket.socket, right: socket.socket, clear: bool) -> tuple[Stream, Stream]:
    """Both ends of one connection, on sockets that need not be connected to each other."""
    keys = SealKeys.new()
    ours, theirs = Seal(keys.listener), Seal(keys.caller)
    back, forth = Seal(keys.caller), Seal(keys.listener)
    return (
        FrameStream(left, (ours, theirs), clear, encode_to_agent, decode_to_agent),
        FrameStream(right, (back, forth), clear, encode_to_agent, decode_to_agent),
    )


def ends(clear: bool) -> tuple[Stream, Stream, tuple[socket.socket, socket.socket]]:
    """Two connected ends, and their sockets."""
    left, right = socket.socketpair()
    return (*streams(left, right, clear), (left, right))


@pytest.fixture(params=[True, False], ids=["clear", "sealed"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Stream, Stream]]:
    left, right, _ = ends(request.param)
    yield left, right
    left.free()
    right.free()


def read(stream: Stream, tensors: list[memoryview]) -> None:
    """Read tensors, which are what was sent."""
    for tensor in tensors:
        room = bytearray(len(tensor))
        stream.read_into(memoryview(room))
        assert room == tensor


def test_messages_and_tensors_arrive_in_order(pair: tuple[Stream, Stream]) -> None:
    left, right = pair
    tensors = [memoryview(os.urandom(size)) for size in (0, 3, 4096, 5_000_001)]
    left.send(EndIncarnation(1, True))
    left.send(ReleaseOrder(2, 3), tensors)  # more than a socket holds: the rest goes by a thread
    left.send(EndIncarnation(4, False), tensors[:3])
    left.send(EndIncarnation(5, False))
    assert right.receive() == (EndIncarnation(1, True), 0)
    assert right.receive() == (ReleaseOrder(2, 3), sum(map(len, tensors)))
    read(right, tensors)
    assert right.receive() == (EndIncarnation(4, False), 4099)
    read(right, tensors[1:3])  # that of no byte may be read or not
    assert right.receive() == (EndIncarnation(5, False), 0)


def test_a_tensor_that_finds_no_room_is_skipped(pair: tuple[Stream, Stream]) -> None:
    left, right = pair
    left.send(ReleaseOrder(2, 3), [memoryview(os.urandom(600_001))])
    left.send(EndIncarnation(4, False))
    right.skip(right.receive()[1])
    assert right.receive() == (EndIncarnation(4, False), 0)


def test_both_ends_send_at_the_same_time(pair: tuple[Stream, Stream]) -> None:
    tensor = memoryview(os.urandom(3_000_000))
    for end in pair:
        end.send(ReleaseOrder(2, 3), [tensor])
    for end in pair:
        assert end.receive()[1] == len(tensor)
        room = bytearray(len(tensor))
        end.read_into(memoryview(room))
        assert room == tensor


def test_what_is_sent_is_not_readable_on_the_way() -> None:
    left, right, (_, wire) = ends(clear=False)
    secret = os.urandom(64)
    left.send(EndIncarnation(1, True), [memoryview(secret)])
    assert secret not in wire.recv(1 << 16)
    left.free()
    right.free()


def test_a_changed_byte_ends_the_connection() -> None:
    sending, wire = socket.socketpair()
    replay, receiving = socket.socketpair()
    left, right = streams(sending, receiving, clear=False)
    left.send(EndIncarnation(1, True))
    data = bytearray(wire.recv(1 << 16))
    data[-1] ^= 1
    replay.sendall(data)
    with pytest.raises(StreamEnded, match="no message of this connection"):
        right.receive()
    for one in (left, right):
        one.free()
    for sock in (wire, replay):
        sock.close()


@pytest.mark.parametrize("size", [0, 15, 1 << 31])
def test_a_length_that_no_message_has_ends_the_connection(size: int) -> None:
    left, right, (wire, _) = ends(clear=True)
    wire.sendall(struct.pack("<IQI", size, 0, 0))
    with pytest.raises(StreamEnded, match=f"a message of {size} bytes"):
        right.receive()
    left.free()
    right.free()


def test_closing_wakes_the_receiver_and_drops_what_waits() -> None:
    left, right, _ = ends(clear=True)
    left.send(EndIncarnation(1, True), [memoryview(bytes(20_000_000))])
    threading.Timer(0.05, left.close).start()
    with pytest.raises(StreamEnded):
        left.receive()
    left.send(EndIncarnation(1, True))
    assert not left.waiting
    left.free()
    right.free()
