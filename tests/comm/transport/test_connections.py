"""What strangers and key holders can take from rank 0 of a job on several hosts, over the
loopback."""

from __future__ import annotations

import json
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import zmq
from processes import PATIENCE, wait_until

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.address import RendezvousAddress
from rankmesh.comm.rendezvous.remote_link import RemoteLink
from rankmesh.comm.rendezvous.remote_rendezvous_server import RemoteRendezvousServer
from rankmesh.comm.transport import connections
from rankmesh.comm.transport.connections import MOST_STRANGERS, Connections
from rankmesh.comm.transport.curve import LONGEST, make_keys, public_key
from rankmesh.comm.transport.curve_client import CurveClient
from rankmesh.comm.transport.curve_server import CurveServer
from rankmesh.comm.transport.messages import Join, encode

HOST, KEYS, JOB = "127.0.0.1", make_keys(), "a job"
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
MIB = 1 << 20
SERVER = Path(__file__).parents[2] / "support" / "remote_server_process.py"


class Job:
    """A rendezvous server of two ranks, and whoever else connects to it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.server = RemoteRendezvousServer(
            CurveServer(HOST, self.port, KEYS, 2),
            Rank(0, 2, 0, 1, "host0", 0),
            RendezvousAddress(HOST, self.port, JOB),
            "rank 0",
            PATIENCE,
        )
        self.server.start()
        self.ends: list[socket.socket] = []
        self.links: list[RemoteLink] = []

    def connect(self) -> socket.socket:
        """A connection without keys."""
        sock = socket.create_connection((HOST, self.port), timeout=PATIENCE)
        self.ends.append(sock)
        return sock

    def join(self, rank: int) -> float:
        """Have a rank join; how many seconds that took."""
        began = time.monotonic()
        link = RemoteLink(
            CurveClient(HOST, self.port, KEYS),
            Rank(rank, 2, 0, 1, f"host{rank}", 0),
            RendezvousAddress(HOST, self.port, JOB),
            lambda _: None,
        )
        self.links.append(link)
        link.join(JOB, f"host{rank}", PATIENCE)
        return time.monotonic() - began

    def exchange(self, size: int = 3 * MIB) -> None:
        """All ranks exchange, which shows that the server works."""
        threads = [
            threading.Thread(target=link.exchange, args=(bytes(size),)) for link in self.links
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.server.close()
        for end in self.ends:
            end.close()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    made.close()


def resident() -> int:
    return psutil.Process().memory_info().rss


def flood(sock: socket.socket, size: int) -> None:
    """A greeting, and one handshake command that is announced and sent with `size` bytes, as far as
    that is taken.
    """
    try:
        sock.sendall(GREETING + b"\x06" + struct.pack(">Q", size))
        for _ in range(size // MIB):
            sock.sendall(bytes(MIB))
    except OSError:
        return


def test_strangers_without_keys_take_no_memory(job: Job) -> None:
    before, most = resident(), 0
    threads = [
        threading.Thread(target=flood, args=(job.connect(), 63 * MIB - 1)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            most = max(most, resident() - before)
            thread.join(0.02)
    assert max(most, resident() - before) < 50 * MIB
    job.join(0), job.join(1)
    job.exchange()


def test_idle_connections_keep_no_rank_out() -> None:
    port = free_port()
    with (
        subprocess.Popen(
            [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
        ExitStack() as ends,
    ):
        print(json.dumps([port, KEYS.server, KEYS.client]), file=server.stdin, flush=True)
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        usual, process = psutil.Process(server.pid).num_fds(), psutil.Process(server.pid)
        for _ in range(1100):  # more than it can take
            ends.enter_context(socket.create_connection((HOST, port), timeout=PATIENCE))
        began = time.monotonic()
        link = RemoteLink(
            CurveClient(HOST, port, KEYS),
            Rank(1, 2, 0, 1, "host1", 0),
            RendezvousAddress(HOST, port, JOB),
            lambda _: None,
        )
        ends.callback(link.close)
        link.join(JOB, "host1", PATIENCE)
        assert (
            time.monotonic() - began < 25
        )  # 0.1 s on an idle machine; without the bounds, the 30 s of a handshake
        wait_until(
            lambda: process.num_fds() < usual + MOST_STRANGERS + 10,
            "most strangers to be sent away",
        )
        wait_until(lambda: process.num_fds() < usual + 10, "the handshakes of all others to end")
        assert link.failure is None
        ends.close()
        server.communicate()


@pytest.mark.parametrize("listening", ["127.0.0.1", "0.0.0.0"])
def test_the_address_of_a_connection_is_known_wherever_the_server_listens(listening: str) -> None:
    with socket.create_server((listening, 0)) as server:
        port = int(server.getsockname()[1])
        found = Connections((listening, port), 1, 1000)
        other = socket.socketpair()
        with socket.create_connection((HOST, port)), server.accept()[0] as sock, other[0], other[1]:
            for one in (sock, other[0]):
                found.accepted(one.fileno())
            assert found.address_of(sock.fileno()) == HOST
            assert found.address_of(other[0].fileno()) == ""
        found.close()


def test_descriptors_for_strangers_come_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []
    for now in ((1024, 4096), (1024, 1024), (1024, resource.RLIM_INFINITY)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, now=now: now)
        monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
        connections._reserve_descriptors.__wrapped__()
    assert limits == [(2048, 4096), (2048, resource.RLIM_INFINITY)]


class KeyHolder:
    """A peer that has the keys, and speaks ZeroMQ as it likes."""

    def __init__(self, job: Job) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.copy_threshold = 0  # what it sends is in this process once
        self.socket.set(zmq.CURVE_SERVERKEY, public_key(KEYS.server))
        self.socket.set(zmq.CURVE_PUBLICKEY, public_key(KEYS.client))
        self.socket.set(zmq.CURVE_SECRETKEY, KEYS.client.encode())
        self.monitor = self.socket.get_monitor_socket(zmq.Event.DISCONNECTED)
        self.socket.connect(f"tcp://{HOST}:{job.port}")

    @property
    def lost(self) -> bool:
        return bool(self.monitor.poll(0))

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close()
        self.context.term()


@pytest.fixture
def holder(job: Job) -> Iterator[KeyHolder]:
    made = KeyHolder(job)
    yield made
    made.close()


@pytest.mark.parametrize("member", [False, True])
@pytest.mark.parametrize("part, parts", [(60 * MIB, 20), (16000, 80_000)])
def test_message_of_many_parts_is_refused_as_a_whole(
    job: Job, holder: KeyHolder, member: bool, part: int, parts: int
) -> None:
    job.join(0)
    if member:
        holder.socket.send(encode(Join(1, 2, JOB, "host1")))
        assert holder.socket.poll(PATIENCE * 1000)
    else:
        holder.socket.send(b"")
    data, before, most = bytes(part), resident(), 0
    for _ in range(parts):
        holder.socket.send(data, zmq.SNDMORE, copy=False)
    holder.socket.send(b"")  # only now does the library send anything
    deadline = time.monotonic() + PATIENCE
    while not holder.lost:
        most = max(most, resident() - before)
        assert time.monotonic() < deadline, "the server did not hang up"
        time.sleep(0.01)
    assert most < (LONGEST if member else 0) + 250 * MIB, f"{most // MIB} MiB"


def test_rank_that_keeps_within_the_bound_is_heard(job: Job) -> None:
    job.join(0), job.join(1)
    job.exchange(LONGEST // 2)
    assert all(link.failure is None for link in job.links)
