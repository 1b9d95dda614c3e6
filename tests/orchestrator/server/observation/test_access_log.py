"""The access log of a whole server: HTTP and gRPC, ids, and what hostile clients write."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_grpc import connected, infer_message
from served_http import ServerProcess, serving, tensor
from served_models import echo

from rankmesh import UsageError
from rankmesh.orchestrator.server.observation.access_log import (
    AccessLog,
    AccessLogSettings,
    LogForm,
)
from rankmesh.orchestrator.server.observation.record import RequestRecord
from rankmesh.orchestrator.server.observation.trace_context import trace_id_of

X = np.arange(4, dtype=np.float32)
TOKEN = "a-token-of-tests-that-is-long"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    (folder / "tokens").touch(0o600)
    (folder / "tokens").write_text(f"tokens: [{{name: web, token: {TOKEN}}}]")
    options = ["--access-log", "json", "--access-log-file", f"{folder}/log", "--grpc-port", "0"]
    options += ["--tokens", f"{folder}/tokens", "--max-body-bytes", "9000"]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving(echo(folder, X.size), *options, headers=headers) as made:
        yield made


def lines(folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    """The lines with these values, waited for."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        records = map(json.loads, (folder / "log").read_text().splitlines())
        found[:] = [one for one in records if wanted.items() <= one.items()]
        return bool(found)

    wait_until(look, f"a line with {wanted}")
    return found


def test_requests_of_http_have_lines_and_ids(server: ServerProcess, folder: Path) -> None:
    reply = server.infer("echo", [tensor("x", X)], id="of-the-message")
    (line,) = lines(folder, id="of-the-message")
    assert line["bytes_out"] == len(reply.body) and line["bytes_in"] > 50
    assert 0 < line["seconds"] < 60
    assert line["queue_seconds"] + line["run_seconds"] <= line["seconds"]
    expected = {"client": "127.0.0.1", "token": "web", "model": "echo", "version": "1"}
    assert {**expected, "status": "200", "trace_id": None}.items() <= line.items()
    named = server.ask("GET", "/v2/nothing", headers={"X-Request-Id": "of-the-header"})
    assert named.headers["x-request-id"] == "of-the-header"
    (line,) = lines(folder, id="of-the-header")
    assert (line["status"], line["queue_seconds"], line["run_seconds"]) == ("404", None, None)
    made = server.get("/v2").headers["x-request-id"]
    assert lines(folder, id=made)[0]["path"] == "/v2"
    refused = server.ask("GET", "/v2", headers={"Authorization": "Bearer wrong"})
    assert lines(folder, id=refused.headers["x-request-id"])[0]["status"] == "401"


@pytest.mark.parametrize(
    ("sent", "status", "method", "path"),
    [
        (b"GARBLED\r\n\r\n", "400", "", ""),
        (b"GET /large HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n" % (b"x" * 40000), "431", "", ""),
        (b"PUT /v2 HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", "421", "PUT", "/v2"),
        (b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", "413", "PUT", "/a"),
    ],
)
def test_what_a_connection_refuses_has_lines(
    server: ServerProcess, folder: Path, sent: bytes, status: str, method: str, path: str
) -> None:
    exchange(server, sent)
    (line,) = lines(folder, status=status)
    assert (line["client"], line["method"], line["path"]) == ("127.0.0.1", method, path)
    assert line["bytes_out"] > 0 and line["run_seconds"] is None and line["id"]


def test_a_request_that_is_refused_while_its_body_comes_has_one_line(
    server: ServerProcess, folder: Path
) -> None:
    path = "/v2/models/echo/infer"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += "X-Request-Id: in-chunks\r\nTransfer-Encoding: chunked\r\n\r\n"
    exchange(server, head.encode() + b"2\r\n{}\r\nno length\r\n")
    (line,) = lines(folder, id="in-chunks")
    assert (line["status"], line["path"], line["bytes_in"]) == ("400", path, None)


def exchange(server: ServerProcess, sent: bytes) -> None:
    """Send bytes on a connection of their own, and read to its end."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(sent)
        while client.recv(1 << 16):
            pass


def test_the_trace_of_the_client_is_in_its_line(server: ServerProcess, folder: Path) -> None:
    server.ask("GET", "/v2", headers={"traceparent": PARENT})
    (line,) = lines(folder, trace_id=TRACE)
    assert line["path"] == "/v2"
    with connected(server.grpc_port) as client:
        given = [("authorization", f"Bearer {TOKEN}"), ("traceparent", PARENT)]
        client.send("ModelInfer", infer_message("echo", {"x": X}, id="traced"), metadata=given)
    assert lines(folder, id="traced")[0]["trace_id"] == TRACE


@pytest.mark.pure
@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (PARENT, TRACE),
        (f"cc-{TRACE}-b7ad6b7169203331-01-more", TRACE),
        (f"{PARENT}-more", ""),
        (PARENT.upper(), ""),
        (f"ff-{TRACE}-b7ad6b7169203331-01", ""),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        ("", ""),
    ],
)
def test_trace_ids_are_those_of_the_standard(header: str, trace: str) -> None:
    assert trace_id_of(header) == trace


def test_control_characters_of_clients_are_written_out(server: ServerProcess, folder: Path) -> None:
    assert server.get("/v2/%1b%5b2J%0aforged%E2%80%AE").status == 404
    (line,) = lines(folder, path="/v2/\\x1b[2J\\nforged\\u202e")
    assert line["status"] == "404"


def test_calls_of_grpc_have_lines(server: ServerProcess, folder: Path) -> None:
    message = infer_message("echo", {"x": X}, id="of-grpc")
    with connected(server.grpc_port) as client:
        given = [("authorization", f"Bearer {TOKEN}")]
        client.send("ModelInfer", message, metadata=given)
        assert len(list(client.stream([message] * 3, metadata=given))) == 3
        with pytest.raises(grpc.RpcError):
            client.send("ModelInfer", message)
    path = "/inference.GRPCInferenceService/ModelInfer"
    (line,) = lines(folder, path=path, status="OK", id="of-grpc")
    assert (line["id"], line["model"], line["token"]) == ("of-grpc", "echo", "web")
    assert line["bytes_in"] == len(message.SerializeToString())
    assert lines(folder, path=path, status="UNAUTHENTICATED")[0]["token"] == ""
    (stream,) = lines(folder, path=path.replace("ModelInfer", "ModelStreamInfer"))
    assert stream["bytes_in"] == 3 * line["bytes_in"] and stream["status"] == "OK"
    assert line["run_seconds"] > 0 and stream["run_seconds"] > 0


def test_a_file_that_was_moved_is_opened_again(server: ServerProcess, folder: Path) -> None:
    (folder / "log").rename(folder / "log.1")
    server.process.send_signal(signal.SIGHUP)
    wait_until((folder / "log").exists, "the new file")
    server.get("/v2")
    assert lines(folder, path="/v2")


def test_a_line_of_text_quotes_what_comes_from_clients(tmp_path: Path) -> None:
    log = AccessLog(AccessLogSettings(LogForm.TEXT, f"{tmp_path}/log"))
    record = RequestRecord("::1", "GET", '/a" 200 "b', "7")
    record.bytes_out, record.status = 5, "404"
    log.write([record])
    log.close()
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert ' ::1 "" GET "/a\\" 200 \\"b" "" - 404 - 5 ' in line and line.endswith(' - - "7" -')


def test_wrong_options_are_told(tmp_path: Path) -> None:
    assert AccessLog.wanted(AccessLogSettings()) is None
    with pytest.raises(UsageError, match="expected text, json or off"):
        AccessLogSettings.named("xml", None)
    with pytest.raises(UsageError, match="cannot be written"):
        AccessLog(AccessLogSettings(LogForm.TEXT, f"{tmp_path}/missing/log"))
