"""Tokens, roles and rates of a whole server: HTTP, gRPC and the ASGI application."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from processes import wait_until
from served_grpc import GrpcClient, connected, infer_message
from served_http import ServerProcess, binary, serving, tensor
from served_models import echo

import rankmesh

Code = grpc.StatusCode
X = np.arange(4, dtype=np.float32)
INFER, OPS, SLOW = "infer-token-of-tests", "ops-token-of-tests", "slow-token-of-tests"
FEW = "few-token-of-tests"
FILE = f"""
tokens:
  - {{name: web, token: {INFER}}}
  - {{name: ops, token: {OPS}, roles: [infer, manage, metrics]}}
  - {{name: slow, token: {SLOW}, rate: 0.001, burst: 2}}
  - {{name: few, token: {FEW}, rate: 0.001, burst: 4}}
"""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.yaml"
    path.touch(0o600)
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def server(tokens: Path) -> Iterator[ServerProcess]:
    options = ["--tokens", str(tokens), "--grpc-port", "0", "--rate", "1000"]
    with serving(echo(tokens.parent, X.size), *options) as made:
        yield made


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GrpcClient]:
    with connected(server.grpc_port) as made:
        yield made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def metadata(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"bearer {token}")]


def infer(server: ServerProcess, token: str) -> Any:
    named = ServerProcess(server.process, server.port, headers=bearer(token))
    return named.infer("echo", [tensor("x", X)])


def code(client: GrpcClient, method: str, message: Any, token: str | None) -> Any:
    try:
        given = [] if token is None else metadata(token)
        client.send(method, message, metadata=given)
    except grpc.RpcError as error:
        return error.code()
    return Code.OK


def test_http_wants_a_token_that_permits_it(server: ServerProcess) -> None:
    assert server.get("/v2/health/live").status == 200
    assert server.get("/v2/health/ready").status == 200
    missing = server.get("/v2/models/echo")
    assert missing.status == 401 and "Authorization" in missing.error
    assert missing.headers["www-authenticate"] == 'Bearer realm="rankmesh"'
    wrong = server.ask("GET", "/v2", headers=bearer("wrong"))
    assert wrong.status == 401 and "invalid_token" in wrong.headers["www-authenticate"]
    assert server.ask("GET", "/v2", headers={"Authorization": f"Basic {INFER}"}).status == 401
    assert infer(server, INFER).json["outputs"][0]["data"] == X.tolist()
    for path, status in (("/metrics", 403), ("/v2/models/stats", 200), ("/v2/nothing", 404)):
        assert server.ask("GET", path, headers=bearer(INFER)).status == status
    refused = server.ask("POST", "/v2/repository/models/echo/unload", b"", bearer(INFER))
    assert refused.status == 403
    assert refused.error == "the token 'web' has not the role `manage`."
    assert server.ask("GET", "/metrics", headers=bearer(OPS)).status == 200


def test_grpc_wants_a_token_that_permits_it(client: GrpcClient) -> None:
    message = infer_message("echo", {"x": X})
    assert client.call("ServerLive").live
    assert client.health("") == 1
    assert code(client, "ModelInfer", message, None) == Code.UNAUTHENTICATED
    assert code(client, "ModelInfer", message, "wrong") == Code.UNAUTHENTICATED
    assert code(client, "ModelInfer", message, INFER) == Code.OK
    assert code(client, "LogSettings", b"", INFER) == Code.PERMISSION_DENIED
    assert code(client, "LogSettings", b"", OPS) == Code.OK
    with pytest.raises(grpc.RpcError) as raised:
        list(client.stream([message]))
    assert raised.value.code() == Code.UNAUTHENTICATED
    assert len(list(client.stream([message] * 5, metadata=metadata(INFER)))) == 5
    with pytest.raises(grpc.RpcError) as raised:
        list(client.watch(""))
    assert raised.value.code() == Code.UNAUTHENTICATED


def test_a_rate_holds_for_a_token_over_both_protocols(
    server: ServerProcess, client: GrpcClient
) -> None:
    message = infer_message("echo", {"x": X})
    assert infer(server, SLOW).status == 200
    answers = client.stream([message] * 3, metadata=metadata(SLOW))
    with pytest.raises(grpc.RpcError) as raised:
        list(answers)
    assert raised.value.code() == Code.RESOURCE_EXHAUSTED
    late = infer(server, SLOW)
    assert late.status == 429 and 0 < int(late.headers["retry-after"]) <= 1000
    assert "0.001 requests a second" in late.error
    assert code(client, "ModelInfer", message, SLOW) == Code.RESOURCE_EXHAUSTED
    assert infer(server, INFER).status == 200


def test_requests_that_repeat_pass_the_gate_each_once(server: ServerProcess) -> None:
    document = {"inputs": [binary("x", X)], "parameters": {"binary_data_output": True}}

    def ask(token: str) -> Any:
        named = ServerProcess(server.process, server.port, headers=bearer(token))
        return named.post("/v2/models/echo/infer", document, X.tobytes())

    for _ in range(4):
        np.testing.assert_array_equal(ask(INFER).array(), X)
    assert [ask(FEW).status for _ in range(6)] == [200] * 4 + [429] * 2
    for _ in range(3):
        assert ask("wrong-token-of-tests").status == 401


def test_tokens_are_read_again_after_hup(server: ServerProcess, tokens: Path) -> None:
    tokens.write_text("tokens: [")
    server.process.send_signal(signal.SIGHUP)
    assert infer(server, INFER).status == 200
    tokens.write_text(FILE.replace(INFER, INFER + "-new"))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: infer(server, INFER + "-new").status == 200, "the new token")
    assert infer(server, INFER).status == 401


def test_the_asgi_application_has_tokens_too(tmp_path: Path, tokens: Path) -> None:
    tokens.write_text(FILE)
    found: list[int] = []

    async def ask(app: Any, **headers: str) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(event: Any) -> None:
            found.append(event.get("status", 0))

        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        await app({"type": "http", "method": "GET", "path": "/v2", "headers": given}, receive, send)

    async def both() -> None:
        app = rankmesh.asgi_app(orchestrator, tokens=str(tokens))
        await ask(app)
        await ask(app, authorization=f"Bearer {INFER}")

    with rankmesh.Orchestrator(echo(tmp_path, 4)) as orchestrator:
        asyncio.run(both())
    assert [one for one in found if one] == [401, 200]
