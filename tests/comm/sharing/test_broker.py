"""The broker and those who ask it, in processes of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
from told_process import ToldProcess

from rankmesh.comm.errors import InputError, UsageError
from rankmesh.comm.host.sealed_memory import SealedMemory, map_read_only
from rankmesh.comm.sharing import broker as broker_module
from rankmesh.comm.sharing.attachment import Attachment, ask_for_rank, ask_for_update
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.messages import (
    LONGEST,
    Attach,
    Granted,
    Hello,
    ProofExchange,
    Proven,
    Refused,
    Update,
    broker_path,
    decode_reply,
    encode,
    nonce,
    proof,
)
from rankmesh.comm.sharing.whitelist import Whitelist

_FORK = multiprocessing.get_context("fork")
MODEL, DEVICE = "a model's hash", "cpu 0"


class Client(ToldProcess):
    """A child process that does what it is told: attach, read, fetch, leave."""

    def __init__(self) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_client, args=(theirs, self.pipe))
        self.process.start()
        theirs.close()

    def close(self) -> None:
        self.pipe.close()
        self.process.join()


def _client(pipe: Connection, parents: Connection) -> None:
    parents.close()
    attachment: Attachment | None = None
    with contextlib.suppress(EOFError):
        while True:
            name, *arguments = pipe.recv()
            try:
                if name == "attach":
                    attachment = Attachment(*arguments)
                    pipe.send((attachment.slot, attachment.owner))
                elif name == "read":
                    assert attachment is not None
                    pipe.send([bytes(map_read_only(fd)[:5]) for fd in attachment.fds])
                elif name == "fetch":
                    assert attachment is not None
                    pipe.send(attachment.fetch())
                elif name == "hold":
                    assert attachment is not None
                    word = memoryview(bytearray(arguments[0].to_bytes(8, "little"))).cast("Q")
                    held = contextlib.ExitStack()
                    pipe.send(held.enter_context(attachment.lease.hold(word)))
                elif name == "release":
                    pipe.send(held.close())
                elif name == "update":
                    with open(arguments[1], "rb") as file:
                        pipe.send(
                            ask_for_update(arguments[0], file.fileno(), Update("new weights"), 30)
                        )
            except UsageError as error:
                pipe.send(str(error))


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


@contextlib.contextmanager
def sharing(*pids: int, update: Any = None) -> Iterator[Broker]:
    file = SealedMemory("test", 100)
    file.bytes[:5] = b"hello"
    broker = Broker(Whitelist(pids), MODEL, DEVICE, [file.fd], update)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
        file.close()
        assert not os.path.exists(broker_path(broker.handle))


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_listed_process_gets_the_memory(client: Client) -> None:
    with sharing(client.pid) as broker:
        assert 0 < broker.handle < 2**63
        assert client("attach", broker.handle, MODEL, DEVICE) == (0, os.getpid())
        assert client("read") == [b"hello"]
        assert broker.clients() == [client.pid]


def test_a_process_off_the_list_gets_nothing(client: Client, other: Client) -> None:
    with sharing(other.pid) as broker:
        said = client("attach", broker.handle, MODEL, DEVICE)
        assert said == (
            f"process {os.getpid()}, the owner of the weights, refuses: process {client.pid} is "
            "not on the "
            f"owner's list of processes (shareable_weight_pid_list)."
        )
        assert broker.clients() == []


@pytest.mark.parametrize(
    ("model", "device", "said"),
    [
        ("another", DEVICE, "the model differs from the owner's"),
        (MODEL, "cuda 1", "the owner's weights are on cpu 0, this model is on cuda 1"),
    ],
)
def test_another_model_or_device_is_refused(
    client: Client, model: str, device: str, said: str
) -> None:
    with sharing(client.pid) as broker:
        assert said in client("attach", broker.handle, model, device)


def test_a_wrong_handle_finds_nobody_even_for_a_listed_process(client: Client) -> None:
    with sharing(client.pid) as broker:
        assert "no process shares weights under this handle" in client(
            "attach", broker.handle ^ 1, MODEL, DEVICE
        )


def test_the_socket_of_one_handle_does_not_serve_another(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds the socket without knowing the handle sees that it is another one's."""
    with sharing(os.getpid()) as broker:
        path = broker_path(broker.handle)
        monkeypatch.setattr("rankmesh.comm.sharing.attachment.broker_path", lambda handle: path)
        with pytest.raises(UsageError, match="does not prove that it knows their handle"):
            Attachment(broker.handle ^ 1, MODEL, DEVICE)


@pytest.mark.parametrize("greeted", [True, False])
def test_a_listed_process_that_does_not_prove_the_handle_is_refused(greeted: bool) -> None:
    with (
        sharing(os.getpid()) as broker,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock,
    ):
        sock.settimeout(10)
        sock.connect(broker_path(broker.handle))
        if greeted:
            sock.send(encode(Hello(nonce())))
            assert isinstance(decode_reply(sock.recv(LONGEST)), Proven)
        sock.send(encode(Attach(nonce(), MODEL, DEVICE)))
        assert decode_reply(sock.recv(LONGEST)) == Refused(
            "the handle is not the one of these weights"
        )
        assert sock.recv(LONGEST) == b""


def test_a_proof_is_good_for_one_request(client: Client) -> None:
    """What a listed process has proved once cannot be said again."""
    with (
        sharing(os.getpid()) as broker,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock,
    ):
        sock.settimeout(10)
        sock.connect(broker_path(broker.handle))
        mine = nonce()
        sock.send(encode(Hello(mine)))
        proven = decode_reply(sock.recv(LONGEST))
        assert isinstance(proven, Proven)
        request = Attach(
            proof(
                broker.handle, "user", ProofExchange(mine, proven.nonce, os.getpid(), os.getpid())
            ),
            MODEL,
            DEVICE,
        )
        for expected in (Granted, Refused):
            sock.send(encode(request))
            data, fds, _, _ = socket.recv_fds(sock, LONGEST, 10)
            for fd in fds:
                os.close(fd)
            assert isinstance(decode_reply(data), expected)


@pytest.mark.parametrize("handle", [0, -1, 2**63])
def test_a_number_that_is_no_handle(handle: int) -> None:
    with pytest.raises(UsageError, match=r"a number from 1 to 2\*\*63 - 1, got"):
        Attachment(handle, MODEL, DEVICE)


def test_the_list_can_change(client: Client) -> None:
    with sharing() as broker:
        assert "is not on the owner's list" in client("attach", broker.handle, MODEL, DEVICE)
        assert broker.whitelist.allow(client.pid)
        assert client("attach", broker.handle, MODEL, DEVICE) == (0, os.getpid())
        broker.whitelist.revoke(client.pid)
        assert "is not on the owner's list" in client("fetch")
        assert client("read") == [b"hello"]  # what is mapped stays mapped


def test_holders_are_counted_until_they_die(client: Client, other: Client) -> None:
    with sharing(client.pid, other.pid) as broker:
        assert client("attach", broker.handle, MODEL, DEVICE)[0] == 0
        assert other("attach", broker.handle, MODEL, DEVICE)[0] == 1
        assert broker.clients() == sorted([client.pid, other.pid])
        client.process.kill()
        _wait(lambda: broker.clients() == [other.pid])
        assert broker.slots() == {1}


def test_files_published_later_are_fetched(client: Client) -> None:
    with sharing(client.pid) as broker:
        client("attach", broker.handle, MODEL, DEVICE)
        more = [SealedMemory("more", 100) for _ in range(450)]
        for index, file in enumerate(more):
            file.bytes[:5] = f"{index:05}".encode()
            broker.publish([file.fd])
        client("fetch")
        assert client("read") == [b"hello", *(f"{index:05}".encode() for index in range(450))]
        for file in more:
            file.close()


def test_who_mapped_the_memory_keeps_it_when_the_owner_goes(client: Client, other: Client) -> None:
    with sharing(client.pid, other.pid) as broker:
        handle = broker.handle
        client("attach", handle, MODEL, DEVICE)
    assert client("read") == [b"hello"]
    assert "closed the connection: it has ended" in client("fetch")
    assert "no process shares weights under this handle" in other("attach", handle, MODEL, DEVICE)


def test_a_forked_child_of_the_owner_does_not_keep_it_alive(client: Client) -> None:
    with sharing(client.pid) as broker:
        child = _FORK.Process(target=time.sleep, args=(60,))
        child.start()
        handle = broker.handle
    assert "no process shares weights under this handle" in client("attach", handle, MODEL, DEVICE)
    child.kill()
    child.join()


@pytest.mark.parametrize("what", [b"", b"\x00", b"x" * 9000, b"\x81\xa4type\xa6Attach"])
def test_what_is_no_request_ends_the_connection_only(client: Client, what: bytes) -> None:
    with sharing(client.pid, os.getpid()) as broker:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(10)
            sock.connect(broker_path(broker.handle))
            sock.send(what)
            while sock.recv(10_000):
                pass  # its refusal, then the end
        assert client("attach", broker.handle, MODEL, DEVICE)[0] == 0


def test_who_asks_nothing_is_sent_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "FIRST_REQUEST_SECONDS", 1.5)
    with (
        sharing(client.pid, os.getpid()) as broker,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock,
    ):
        sock.settimeout(10)
        sock.connect(broker_path(broker.handle))
        assert sock.recv(1) == b""
        assert client("attach", broker.handle, MODEL, DEVICE)[0] == 0
        assert broker.clients() == [client.pid]  # holders have no such deadline


def test_an_update_goes_to_the_owner_with_its_file(client: Client, tmp_path: Any) -> None:
    (tmp_path / "weights").write_bytes(b"new")
    with sharing(
        update=lambda fd, request: f"{request.name}: {os.pread(fd, 10, 0).decode()} {request.delta}"
    ):
        assert client("update", os.getpid(), tmp_path / "weights") == "new weights: new False"


def test_an_owner_says_which_rank_it_is() -> None:
    broker = Broker(Whitelist(), MODEL, DEVICE, [], rank=3)
    broker.start()
    try:
        assert ask_for_rank(os.getpid()) == 3
    finally:
        broker.close()


def test_a_refused_update_says_why(client: Client, tmp_path: Any) -> None:
    def refuse(fd: int, request: Update) -> str:
        raise InputError("there is no weight 'w'")

    (tmp_path / "weights").write_bytes(b"new")
    with sharing(update=refuse):
        assert "refuses: there is no weight 'w'" in client(
            "update", os.getpid(), tmp_path / "weights"
        )
    assert "shares no weights" in client("update", os.getpid(), tmp_path / "weights")


def test_an_update_that_fails_in_another_way_says_so_too(client: Client, tmp_path: Any) -> None:
    def fail(fd: int, request: Update) -> str:
        raise MemoryError("64 GiB")

    (tmp_path / "weights").write_bytes(b"new")
    with sharing(update=fail):
        assert "refuses: the update failed, and changed nothing: MemoryError: 64 GiB" in client(
            "update", os.getpid(), tmp_path / "weights"
        )


@pytest.mark.parametrize("count", [1, 199, 200, 201, 450])
def test_any_number_of_files(client: Client, count: int) -> None:
    files = [SealedMemory("test", 8) for _ in range(count)]
    broker = Broker(Whitelist([client.pid]), MODEL, DEVICE, [file.fd for file in files])
    broker.start()
    try:
        client("attach", broker.handle, MODEL, DEVICE)
        assert len(client("read")) == count
        for file in files[:2]:
            broker.publish([file.fd])
        client("fetch")
        assert len(client("read")) == count + len(files[:2])
    finally:
        broker.close()
        for file in files:
            file.close()


def test_each_holder_has_a_lease_of_its_own(client: Client, other: Client) -> None:
    """The owner sees who computes with an old version, and forgets a holder that dies in the
    middle.
    """
    with sharing(client.pid, other.pid) as broker:
        for one in (client, other):
            one("attach", broker.handle, MODEL, DEVICE)
        assert broker.holding_older(1000) == []
        client("hold", 7)
        assert broker.holding_older(8) == [client.pid]
        assert broker.holding_older(7) == []
        other("hold", 3)
        assert broker.holding_older(8) == sorted([client.pid, other.pid])
        assert broker.holding_older(7) == [other.pid]
        other("release")
        client.process.kill()
        deadline = time.monotonic() + 10
        while broker.holding_older(8) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert broker.holding_older(8) == []
