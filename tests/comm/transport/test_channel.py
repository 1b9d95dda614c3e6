from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.transport.channel import Channel
from rankmesh.comm.transport.message_stream import ChannelClosed
from rankmesh.comm.transport.messages import (
    Exchange,
    Exchanged,
    Failed,
    Finished,
    Message,
    Start,
    encode,
)

pytestmark = pytest.mark.pure

RANK = Rank(1, 4, 1, 2, "host", 0)
MESSAGES: list[Message] = [
    Start(RANK, b"job", 1.5),
    Exchange(b""),
    Exchanged([b"a", b"", b"c" * 300]),
    Finished(b"\0\xff"),
    Failed("ModelError", "m\u00f6del.onnx: kaputt"),
]


def framed(message: Message) -> bytes:
    data = encode(message)
    return struct.pack("<Q", len(data)) + data


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    """A raw socket, and the channel at its other end."""
    raw, other = socket.socketpair()
    channel = Channel.inherited(other.detach())
    yield raw, channel
    raw.close()
    channel.close()


def test_messages_arrive_whole_and_in_order() -> None:
    left, right = Channel.pair()
    for message in MESSAGES:
        left.send(message)
    assert [right.receive() for _ in MESSAGES] == MESSAGES
    right.send(MESSAGES[1])
    assert left.receive() == MESSAGES[1]
    left.close()
    right.close()


@given(st.lists(st.integers(1, 40), max_size=60))
def test_split_reads(sizes: list[int]) -> None:
    raw, other = socket.socketpair()
    channel = Channel.inherited(other.detach())
    stream = b"".join(map(framed, MESSAGES))
    found = []
    for size in [*sizes, len(stream)]:
        piece, stream = stream[:size], stream[size:]
        if piece:
            raw.sendall(piece)
            found += channel.receive_ready()
    assert found == MESSAGES
    raw.close()
    channel.close()


def test_large_messages_pass_through_small_buffers() -> None:
    left, right = Channel.pair()
    message = Exchanged([bytes(range(256)) * 20_000, b"end"])
    sender = threading.Thread(target=left.send, args=[message])
    sender.start()
    assert right.receive() == message
    sender.join()
    left.close()
    right.close()


def test_end_of_stream(ends: tuple[socket.socket, Channel]) -> None:
    raw, channel = ends
    raw.sendall(framed(MESSAGES[0]) + framed(MESSAGES[1])[:-1])
    raw.shutdown(socket.SHUT_WR)
    assert channel.receive() == MESSAGES[0]
    for read in (channel.receive, channel.receive_ready):
        with pytest.raises(ChannelClosed, match="the other side closed"):
            read()


def test_sending_to_nobody(ends: tuple[socket.socket, Channel]) -> None:
    raw, channel = ends
    raw.close()
    with pytest.raises(ChannelClosed, match="the other side closed"):
        channel.send(MESSAGES[0])


def test_reset_with_unread_data(ends: tuple[socket.socket, Channel]) -> None:
    raw, channel = ends
    channel.send(MESSAGES[0])
    raw.close()  # with data unread: the kernel resets the connection
    with pytest.raises(ChannelClosed):
        channel.receive()


@pytest.mark.parametrize("length", [(1 << 30) + 1, 1 << 63, (1 << 64) - 1])
def test_lengths_beyond_all_reason(ends: tuple[socket.socket, Channel], length: int) -> None:
    raw, channel = ends
    raw.sendall(struct.pack("<Q", length))
    with pytest.raises(ChannelClosed, match=f"{length} bytes was announced"):
        channel.receive()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\xc1",
        b"\x81\xa4type\xa4Nope",
        b"\x82\xa4type\xa8Exchange\xa7payload\x01",
        encode(MESSAGES[0])[:-1],
        encode(MESSAGES[1]) + b"\0",
        encode(MESSAGES[0]).replace(b"\xa4rank\x01", b"\xa4rank\x09"),
    ],
)
def test_garbage_is_no_message(ends: tuple[socket.socket, Channel], data: bytes) -> None:
    raw, channel = ends
    raw.sendall(struct.pack("<Q", len(data)) + data)
    with pytest.raises(ChannelClosed, match="no message"):
        channel.receive()


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_the_end(data: bytes) -> None:
    raw, other = socket.socketpair()
    channel = Channel.inherited(other.detach())
    raw.sendall(data)
    raw.close()
    with pytest.raises(ChannelClosed):
        while True:
            assert isinstance(channel.receive(), Message)
    channel.close()


@given(st.binary(min_size=1, max_size=60))
def test_any_payload_is_a_message_or_the_end(data: bytes) -> None:
    raw, other = socket.socketpair()
    channel = Channel.inherited(other.detach())
    raw.sendall(struct.pack("<Q", len(data)) + data)
    raw.close()
    with pytest.raises(ChannelClosed):
        while True:
            channel.receive()
    channel.close()


def test_posted_messages_go_as_far_as_the_socket_takes_them():
    left, right = Channel.pair()
    messages = [Exchange(bytes([i]) * 300_000) for i in range(4)]
    for message in messages:
        left.post(message)
    received = []
    while not left.flush():
        received += right.receive_ready()
    while len(received) < len(messages):
        received += right.receive_ready()
    assert received == messages
    assert left.flush()
    right.close()
    left.post(messages[0])
    with pytest.raises(ChannelClosed):
        left.flush()
    left.close()
