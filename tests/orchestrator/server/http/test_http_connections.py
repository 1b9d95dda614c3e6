"""Connections within limits: an application of the test behind real sockets."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from processes import wait_until
from served_connections import Served, received, served

from rankmesh.orchestrator.server.access.gate import AccessSettings, Gate
from rankmesh.orchestrator.server.http.limits import HttpLimits

pytestmark = pytest.mark.pure
BRIEF = HttpLimits(header_seconds=0.6, body_seconds=0.6, body_rate=1 << 30, idle_seconds=0.6)
SMALL = HttpLimits(header_bytes=1000, headers=10, body_bytes=1 << 20)


@pytest.fixture(scope="module")
def brief() -> Iterator[Served]:
    with served(BRIEF) as made:
        yield made


@pytest.fixture(scope="module")
def small() -> Iterator[Served]:
    with served(SMALL) as made:
        yield made


@pytest.fixture(scope="module")
def patient() -> Iterator[Served]:
    with served(HttpLimits()) as made:
        yield made


def request(body: bytes = b"", path: str = "/", *headers: str, close: bool = True) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(*parts: bytes) -> bytes:
    sent = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    lines = [b"POST / HTTP/1.1", b"Host: localhost", b"Transfer-Encoding: chunked"]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + sent


def trailed(*trailer: bytes, extension: bytes = b"") -> bytes:
    """A body in chunks, with headers behind it, or with more beside the size of a chunk."""
    sent = chunked(b"abc").replace(b"3\r\n", b"3;%b\r\n" % extension if extension else b"3\r\n")
    return sent.removesuffix(b"\r\n") + b"".join(b"%b\r\n" % one for one in trailer) + b"\r\n"


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def body(reply: bytes) -> bytes:
    return reply.partition(b"\r\n\r\n")[2]


def test_requests_on_one_connection_are_answered_in_their_order(patient: Served) -> None:
    sent = b"\r\n" * 40_000 + b"\r\n".join(request(b"%d" % n, close=n == 19) for n in range(20))
    replies = patient.exchange(sent)
    assert [part.partition(b"\r\n\r\n")[2] for part in replies.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"%d" % n for n in range(20)
    ]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_bytes_may_come_in_any_pieces(patient: Served, step: int) -> None:
    for sent in (request(b"hello" * 20), chunked(b"hello" * 10, b"hello" * 10)):
        pieces = [sent[at : at + step] for at in range(0, len(sent), step)]
        assert body(patient.exchange(*pieces)) == b"hello" * 20


@pytest.mark.parametrize(("step", "size"), [(1, 20), (7, 20), (1000, 20), (977, 5000)])
def test_answers_without_a_task_keep_their_place_among_others(
    patient: Served, step: int, size: int
) -> None:
    paths = ["/at-once", "/task", "/begun", "/", "/at-once", "/at-once"]
    sent = b"".join(
        request(b"%d" % n * size, path, close=n == len(paths) - 1) for n, path in enumerate(paths)
    )
    replies = patient.exchange(*(sent[at : at + step] for at in range(0, len(sent), step)))
    assert [body(part) for part in replies.split(b"HTTP/1.1 200 OK")[1:]] == [
        (b"at once: " if path == "/at-once" else b"") + b"%d" % n * size
        for n, path in enumerate(paths)
    ]


def test_a_request_that_a_task_answers_after_all_counts_once_at_the_gate() -> None:
    gate = Gate(AccessSettings(rate=0.001, burst=4))
    with served(HttpLimits(), gate=gate) as server:
        paths = ["/begun", "/at-once", "/task", "/begun", "/begun", "/at-once"]
        found = [status(server.exchange(request(b"x", path))) for path in paths]
    assert found == [200] * 4 + [429] * 2


def test_a_malformed_request_behind_one_whose_response_is_large_is_refused(
    patient: Served,
) -> None:
    replies = patient.exchange(request(path="/large", close=False) + b"nonsense\r\n\r\n")
    assert [int(part[:3]) for part in replies.split(b"HTTP/1.1 ")[1:]] == [200, 400]


@pytest.mark.parametrize("path", ["/", "/direct", "/begun"])
def test_a_large_body_arrives_as_it_was_sent(patient: Served, path: str) -> None:
    sent = random.Random(1).randbytes(5 << 20)
    assert body(patient.exchange(request(sent, path))) == sent


def test_a_body_is_asked_for_where_the_client_waits_to_be_asked(patient: Served) -> None:
    with patient.connect() as client:
        client.sendall(request(b"abc", "/", "Expect: 100-continue")[:-3])
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert body(received(client)) == b"abc"


def test_a_request_of_a_client_that_leaves_is_cancelled(patient: Served) -> None:
    before = patient.application.cancelled
    with patient.connect() as client:
        client.sendall(request(path="/wait"))
        wait_until(lambda: patient.application.waiting > before, "the request to be accepted")
    wait_until(lambda: patient.application.cancelled > before, "the request to be cancelled")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (request(b"x", "/at-once").replace(b"localhost", b"evil.example"), 421),
        (request(b"x").replace(b"Length: 1", b"Length: 1\r\nTransfer-Encoding: chunked"), 400),
        (request(b"x").replace(b"Length: 1", b"Length: 1\r\nContent-Length: 2"), 400),
        (request(b"x").replace(b"Length: 1", b"Length: -1"), 400),
        (request(b"x").replace(b"\r\nHost", b"\r\n folded\r\nHost"), 400),
        (request(b"x", "/", "Transfer-Encoding: gzip").replace(b"Content-Length: 1\r\n", b""), 400),
        (request(b"x", "/", *(f"A{n}: 1" for n in range(20))), 431),
        (request(b"x", "/", "Long: " + "a" * 2000), 431),
        (b"a" * 5000, 431),
        (request(b"x").replace(b"Length: 1", b"Length: 9999999999"), 413),
        (chunked(*[b"a" * 100_000] * 20), 413),
        (chunked(b"abc").replace(b"3\r\n", b"zz\r\n"), 400),
        (trailed(b"A: 1", b"B: 2"), 200),
        (trailed(*[b"A: 1"] * 20), 431),
        (trailed(*[b"A: " + b"a" * 300] * 4), 431),
        (trailed(b"A: " + b"a" * 1_000_000), 431),
        (trailed(b"A: 1\r\n" + b"B" * 1_000_000), 431),
        (trailed(extension=b"a" * 100), 200),
        (trailed(extension=b"a" * 1_000_000), 431),
    ],
)
def test_requests_that_cannot_be_are_refused_and_the_connection_closed(
    small: Served, sent: bytes, expected: int
) -> None:
    assert status(small.exchange(sent)) == expected


def test_the_response_to_a_body_that_is_not_read_arrives(patient: Served) -> None:
    assert status(patient.exchange(request(b"x" * (2 << 20), "/ignore"))) == 404


@pytest.mark.parametrize("data", [b"", b"abc"])
@pytest.mark.parametrize(
    ("version", "connection"), [("1.1", "close"), ("1.0", "close"), ("1.0", "keep-alive")]
)
def test_the_last_request_of_a_client_ends_its_connection(
    patient: Served, data: bytes, version: str, connection: str
) -> None:
    last = request(data, "/", f"Connection: {connection}", close=False)
    found = patient.exchange(last.replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
    assert body(found) == data and b"\r\nconnection: close\r\n" in found


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((b"GET / HTTP/1.1\r\n",), 408),
        ((b"GET / HTTP/1.1\r\n", *[b"A: b\r\n"] * 8), 408),
        ((request(b"abc")[:-1],), 408),
        ((request(b"abc", "/at-once")[:-1],), 408),
        ((request(b"abc" * 1000, "/at-once")[:-1],), 408),
        ((chunked(b"abc")[:-3],), 408),
    ],
)
def test_slow_senders_are_told_and_closed(
    brief: Served, parts: tuple[bytes, ...], expected: int
) -> None:
    assert status(brief.answer(*parts, pause=0.1)) == expected


def test_silent_and_idle_connections_are_closed(brief: Served) -> None:
    assert brief.exchange(b"") == b""
    assert body(brief.answer(request(b"abc", close=False))) == b"abc"


def test_a_client_that_does_not_read_is_closed() -> None:
    with served(HttpLimits(write_seconds=0.6)) as server, server.connect() as client:
        client.sendall(request(path="/large", close=False))
        wait_until(lambda: server.application.large, "the request to be accepted")
        wait_until(lambda: len(server.connections) == 0, "the connection to be closed")


def test_idle_connections_make_room_and_busy_ones_do_not() -> None:
    with served(HttpLimits(connections=4)) as server, ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(server.connect())
        assert body(server.exchange(request(b"abc"))) == b"abc"
        for busy in range(1, 5):
            clients.enter_context(server.connect()).sendall(request(path="/wait"))
            wait_until(
                lambda busy=busy: server.application.waiting == busy,  # type: ignore[misc]
                "the request to be accepted",
            )
        assert status(server.exchange(request(b"abc"))) == 503
        assert server.application.cancelled == 0
        refused = clients.enter_context(server.connect())
        assert status(received(refused)) == 503
        wait_until(lambda: is_closed(refused), "the connection without room to be closed")


def test_slow_clients_make_room_once_no_connection_is_idle() -> None:
    with served(HttpLimits(connections=4)) as server, ExitStack() as clients:
        for _ in range(4):  # a body that comes slowly
            clients.enter_context(server.connect()).sendall(request(b"abc")[:-1])
        wait_until(lambda: server.application.begun == 4, "the requests to begin")
        assert body(server.exchange(request(b"abc"))) == b"abc"
        for unread in range(1, 5):
            clients.enter_context(server.connect()).sendall(request(path="/large", close=False))
            wait_until(
                lambda unread=unread: server.application.large == unread,  # type: ignore[misc]
                "the response to be sent",
            )
        assert body(server.exchange(request(b"abc"))) == b"abc"


def test_a_newcomer_among_slow_clients_is_given_time_for_its_request() -> None:
    with served(HttpLimits(connections=10)) as server, ExitStack() as clients:
        for _ in range(10):
            clients.enter_context(server.connect()).sendall(request(b"abc")[:-1])
        wait_until(lambda: server.application.begun == 10, "the requests to begin")
        newcomers = [clients.enter_context(server.connect()) for _ in range(2)]
        for one in newcomers[::-1]:
            one.sendall(request(b"abc"))
            assert body(received(one)) == b"abc"


def test_idle_connections_make_room_before_a_response_that_is_read_slowly() -> None:
    limits = HttpLimits(connections=4, header_seconds=90, write_seconds=60)
    with served(limits) as server, ExitStack() as clients:
        reader = clients.enter_context(server.connect())
        reader.sendall(request(path="/large"))
        wait_until(lambda: server.application.large, "the response to be sent")
        for _ in range(20):
            clients.enter_context(server.connect())
        assert body(server.exchange(request(b"abc"))) == b"abc"
        assert len(body(received(reader))) == 32 << 20


def is_closed(client: socket.socket) -> bool:
    """Whether the server takes no more bytes."""
    try:
        client.sendall(b"x")
    except OSError:
        return True
    return False


def test_random_bytes_harm_nothing(patient: Served) -> None:
    chance = random.Random(7)
    seeds = [request(b"abc" * 5), chunked(b"ab", b"c"), request(path="/direct", body=b"abcde")]
    for _ in range(300):
        sent = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        with patient.connect() as client:
            client.sendall(sent)
            with suppress(OSError):  # where the server has closed already
                client.shutdown(socket.SHUT_WR)
            received(client)
    assert body(patient.exchange(request(b"abc"))) == b"abc"
    wait_until(lambda: len(patient.connections) == 0, "the connections to be closed")
