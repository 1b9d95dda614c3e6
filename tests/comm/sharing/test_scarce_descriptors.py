"""An owner of weights that has no descriptor left: it refuses, and goes on."""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection

import pytest
from host_device import HostDevice

from rankmesh.comm.host.sealed_memory import SealedMemory
from rankmesh.comm.sharing.attachment import Attachment
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.memory_offer import MemoryOffer
from rankmesh.comm.sharing.messages import LONGEST, Update, broker_path, decode_reply, encode
from rankmesh.comm.sharing.peer import Peer
from rankmesh.comm.sharing.whitelist import Whitelist

_FORK = multiprocessing.get_context("fork")
MODEL, DEVICE = "a model's hash", "cpu 0"


@contextmanager
def only(free: int) -> Iterator[None]:
    """So many descriptors are left to this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _own(pipe: Connection) -> None:
    broker = Broker(
        Whitelist(), MODEL, DEVICE, [SealedMemory("weights", 4096).fd], lambda fd, update: "done"
    )
    broker.start()
    broker.whitelist.allow(os.getppid())
    pipe.send(broker.handle)
    pipe.recv()
    with only(2):  # one for the connection, one for the file that comes with the request
        pipe.send("scarce")
        pipe.recv()
    pipe.send("plenty")
    pipe.recv()
    broker.close()


def test_an_update_that_comes_then() -> None:
    pipe, theirs = _FORK.Pipe()
    owner = _FORK.Process(target=_own, args=(theirs,))
    owner.start()
    theirs.close()
    handle = pipe.recv()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock, open(os.devnull) as file:
        sock.settimeout(60)
        pipe.send("begin")
        assert pipe.recv() == "scarce"
        sock.connect(broker_path(handle))
        socket.send_fds(sock, [encode(Update("w.npz"))], [file.fileno()])
        data = sock.recv(LONGEST)
        assert not data, decode_reply(data)
    pipe.send("enough")
    assert pipe.recv() == "plenty"
    with closing(Attachment(handle, MODEL, DEVICE)) as held:
        assert held.owner == owner.pid
    pipe.send("end")
    owner.join()
    assert owner.exitcode == 0


def test_a_peer_of_whom_nothing_can_be_told_then_is_none_that_lives() -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer = Peer(mine, 0.0)
        if not peer.connected_by_living():
            pytest.fail("this process lives")
        try:
            mine.getsockopt(socket.SOL_SOCKET, 77)
        except OSError:
            pytest.skip("this kernel does not tell (before Linux 6.5)")
        with only(0):
            assert not peer.connected_by_living()
        peer.close()


def _offer_in_vain(pipe: Connection) -> None:
    """Offer memory with too few descriptors for each step; whether any of it is open afterwards."""
    refused = 0
    for free in range(2, 6):  # the device's own memory takes two
        with only(free):
            try:
                MemoryOffer(HostDevice(), 0, 4096)
            except OSError:
                refused += 1
    with os.scandir("/proc/self/fd") as entries:
        names = " ".join(os.readlink(one.path) for one in entries if int(one.name) > 2)
    pipe.send((refused, "device" in names or "peer-ticket" in names))


def test_an_offer_of_a_devices_memory_that_cannot_be_made_leaves_nothing_open() -> None:
    pipe, theirs = _FORK.Pipe()
    child = _FORK.Process(target=_offer_in_vain, args=(theirs,))
    child.start()
    theirs.close()
    assert pipe.recv() == (4, False)
    child.join()
