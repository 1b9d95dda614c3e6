"""Another program at rank 0's port: it is named, to rank 0 and to the others, before any
deadline."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from processes import PATIENCE, rankmesh
from shards import summing

from rankmesh.comm.errors import RankFailed, UsageError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.address import RendezvousAddress
from rankmesh.comm.rendezvous.remote_link import RemoteLink
from rankmesh.comm.transport.curve import make_keys
from rankmesh.comm.transport.curve_client import CurveClient
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable

HOST = "127.0.0.1"


def greets(sock: socket.socket) -> None:
    sock.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")


def answers(sock: socket.socket) -> None:
    sock.recv(1000)
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    sock.close()


def hangs_up(sock: socket.socket) -> None:
    sock.close()


def is_silent(sock: socket.socket) -> None:
    pass


@contextmanager
def program(does: Callable[[socket.socket], None]) -> Iterator[int]:
    """A program that listens; its port."""
    taken: list[socket.socket] = []

    def serve() -> None:
        try:
            while True:
                taken.append(listener.accept()[0])
                does(taken[-1])
        except OSError:
            return

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
    for sock in taken:
        sock.close()


def rank_0(folder: Path, port: int) -> str:
    """What `rankmesh run` says on the host of rank 0, whose ranks wait an hour for each other."""
    key, table = folder / "key", folder / "table.json"
    assert rankmesh("key", "make", key).returncode == 0
    servers = tuple(
        Server(address, (Device(rank, 0),)) for rank, address in enumerate((HOST, "203.0.113.1"))
    )
    table.write_bytes(RankTable(servers).to_json())
    done = rankmesh(
        "run",
        summing(folder),
        "--rank-table",
        table,
        RANKMESH_KEY_FILE=str(key),
        RANKMESH_PORT=str(port),
        RANKMESH_COLLECTIVE_TIMEOUT="3600",
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (greets, "which says 'SSH-2.0-OpenSSH_9.2p1\\r\\n' to newcomers"),
        (is_silent, "which says nothing to newcomers"),
    ],
)
def test_rank_0_names_the_program_that_has_its_port(
    tmp_path: Path,
    does: Callable[[socket.socket], None],
    said: str,
) -> None:
    with program(does) as port:
        text = rank_0(tmp_path, port)
    assert (
        "rank 0 of 2" in text
        and f"port {port} of {HOST} is in use by another program, {said} (process " in text
    )
    assert f"process {os.getpid()} (" in text
    assert "end it, or set another RANKMESH_PORT on all hosts." in text


def test_rank_0_names_a_port_that_somebody_has_and_does_not_listen_at(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        text = rank_0(tmp_path, port := holder.getsockname()[1])
    assert (
        f"port {port} of {HOST} is in use by another program, which does not listen: end it, or"
        in text
    )


def joining(port: int, timeout: float) -> None:
    rank, place = Rank(1, 2, 0, 1, "host1", 0), RendezvousAddress(HOST, port, "a job")
    link = RemoteLink(CurveClient(HOST, port, make_keys()), rank, place, lambda _: None)
    try:
        link.join("a job", "host1", timeout)
    finally:
        link.close()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (greets, "which says 'SSH-2.0-OpenSSH_9.2p1"),
        (answers, "which says nothing"),
        (hangs_up, "which says nothing"),
    ],
)
def test_other_ranks_name_the_port_that_another_program_has(
    does: Callable[[socket.socket], None], said: str
) -> None:
    with (
        program(does) as port,
        pytest.raises(
            UsageError,
            match=(
                f"^rank 1 of 2 on host1: port {port} of {HOST} is in use by another program, {said}"
            ),
        ),
    ):
        joining(port, 3600)


def test_other_ranks_name_after_the_deadline_what_only_listens() -> None:
    with (
        program(is_silent) as port,
        pytest.raises(
            RankFailed,
            match=(
                f"rank 0 at {HOST}:{port} did not answer within 1 s.*port {port} of {HOST} is "
                "in use by another program"
            ),
        ),
    ):
        joining(port, 1)


def test_zeromq_of_another_program_is_taken_for_other_keys() -> None:
    context = zmq.Context()
    server = context.socket(zmq.ROUTER)
    port = server.bind_to_random_port(f"tcp://{HOST}")
    with pytest.raises(UsageError, match=f"rank 0 at {HOST}:{port} does not take our keys"):
        joining(port, 3600)
    server.close(0)
    context.term()
