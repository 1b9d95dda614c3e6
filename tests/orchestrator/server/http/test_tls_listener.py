"""Connections of TLS: handshakes within limits, and bodies of every size behind them."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from certificates import Authority
from processes import wait_until
from served_connections import Served, received, served

from rankmesh.orchestrator.server.access.tls_files import TlsFiles, TlsIdentity
from rankmesh.orchestrator.server.http.limits import HttpLimits

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    signed = authority.sign("server")
    return TlsIdentity.read(TlsFiles(str(signed.certificate), str(signed.key))).context


@pytest.fixture(scope="module")
def server(context: ssl.SSLContext) -> Iterator[Served]:
    with served(HttpLimits(), context) as made:
        yield made


@pytest.fixture(scope="module")
def trust(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


def post(path: str, body: bytes, *, close: bool = True) -> bytes:
    end = "Connection: close\r\n" if close else ""
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{end}\r\n"
    return lines.encode() + body


def secured(server: Served, trust: ssl.SSLContext) -> ssl.SSLSocket:
    return trust.wrap_socket(server.connect(), server_hostname="localhost")


@pytest.mark.parametrize("path", ["/", "/direct"])
@pytest.mark.parametrize("size", [5, 1 << 18, 9_000_001])
def test_a_body_arrives_as_it_was_sent(
    server: Served, trust: ssl.SSLContext, path: str, size: int
) -> None:
    sent = random.Random(1).randbytes(size)
    with secured(server, trust) as client:
        client.sendall(post(path, sent))
        assert received(client).partition(b"\r\n\r\n")[2] == sent


def test_requests_on_one_connection_are_answered_in_their_order(
    server: Served, trust: ssl.SSLContext
) -> None:
    with secured(server, trust) as client:
        client.sendall(b"".join(post("/", b"%d" % n, close=n == 19) for n in range(20)))
        parts = received(client).split(b"HTTP/1.1 200 OK")[1:]
    assert [part.partition(b"\r\n\r\n")[2] for part in parts] == [b"%d" % n for n in range(20)]


def test_a_request_of_a_client_that_leaves_is_cancelled(
    server: Served, trust: ssl.SSLContext
) -> None:
    before = server.application.cancelled
    with secured(server, trust) as client:
        client.sendall(post("/wait", b""))
        wait_until(lambda: server.application.waiting > before, "the request to be accepted")
    wait_until(lambda: server.application.cancelled > before, "the request to be cancelled")


def test_plain_http_is_no_handshake(server: Served) -> None:
    assert b"HTTP" not in server.exchange(post("/", b"abc"))
    wait_until(lambda: server.listener.handshakes == 0, "the handshake to end")


def test_silent_handshakes_are_closed_in_time(context: ssl.SSLContext) -> None:
    with served(HttpLimits(header_seconds=0.3), context) as server:
        assert server.exchange(b"") == b""
        assert server.exchange(b"\x16\x03\x01\x02") == b""
        wait_until(lambda: server.listener.handshakes == 0, "the handshakes to end")


def test_silent_handshakes_make_room(context: ssl.SSLContext, trust: ssl.SSLContext) -> None:
    with served(HttpLimits(connections=3), context) as server, ExitStack() as clients:
        silent: list[socket.socket] = []
        for _ in range(12):
            silent.append(clients.enter_context(server.connect()))
        wait_until(lambda: server.listener.handshakes == 3, "the handshakes to begin")
        with secured(server, trust) as client:
            client.sendall(post("/", b"abc"))
            assert received(client).endswith(b"abc")
        assert received(silent[0]) == b""


def test_a_client_that_does_not_read_is_closed(
    context: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    with served(HttpLimits(write_seconds=0.6), context) as server:
        with secured(server, trust) as client:
            client.sendall(post("/large", b"", close=False))
            wait_until(lambda: server.application.large, "the request to be accepted")
            wait_until(lambda: len(server.connections) == 0, "the connection to be closed")


def test_older_protocols_than_tls_1_2_are_refused(server: Served, trust: ssl.SSLContext) -> None:
    old = ssl.create_default_context()
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match="(?i)protocol|version|reset|closed"):
        old.wrap_socket(server.connect())
