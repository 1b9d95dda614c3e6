"""What arrives over a socket: the bytes, the descriptors, and who does not get these."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from rankmesh.comm.transport.channel import Channel
from rankmesh.comm.transport.message_stream import receive
from rankmesh.comm.transport.messages import Joined

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected ends that keep packets apart."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def memory() -> Iterator[int]:
    fd = os.memfd_create("rankmesh-test", os.MFD_CLOEXEC)
    yield fd
    os.close(fd)


def open_in_a_child() -> str:
    """What a program that this process starts has open, as os.system starts it: nothing closed
    beforehand.
    """
    return subprocess.run(
        ["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True
    ).stdout


def test_no_child_gets_a_descriptor_that_arrived(pair: Pair, memory: int) -> None:
    socket.send_fds(pair[0], [b"text"], [memory, memory])
    data, fds, _ = receive(pair[1], 100, 2)
    assert (data, len(fds)) == (b"text", 2)
    assert {os.fstat(fd).st_ino for fd in fds} == {os.fstat(memory).st_ino}
    assert "rankmesh-test" not in open_in_a_child()
    for fd in fds:
        os.close(fd)


def test_no_child_gets_what_came_over_a_channel(memory: int) -> None:
    near, far = Channel.pair()
    near.send_with_fd(Joined("here"), memory)
    message, (fd,) = far.receive_with_fds()
    assert message == Joined("here")
    assert "rankmesh-test" not in open_in_a_child()
    os.close(fd)
    near.close()
    far.close()


def test_flags_count_on_every_version_of_python(pair: Pair) -> None:
    with pytest.raises(BlockingIOError):
        receive(pair[1], 100, 1, socket.MSG_DONTWAIT)


def test_the_message_tells_that_it_was_cut(pair: Pair, memory: int) -> None:
    socket.send_fds(pair[0], [b"a long text"], [memory, memory])
    data, fds, flags = receive(pair[1], 4, 1)
    assert data == b"a lo"
    assert flags & socket.MSG_TRUNC
    assert flags & socket.MSG_CTRUNC
    for fd in fds:
        os.close(fd)
