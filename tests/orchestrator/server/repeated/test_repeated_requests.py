"""Requests that came before in all but their tensors: REST makes no task of them and gRPC reads no
protobuf, whether they are observed or not, in the process of the orchestrator and in another one.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from processes import PATIENCE
from served_grpc import infer_message
from served_http import binary
from served_models import echo

pytest.importorskip("grpc")

from rankmesh import Orchestrator
from rankmesh.orchestrator.server.forwarding.forwarder import Forwarder
from rankmesh.orchestrator.server.frontend.frontend import Frontend
from rankmesh.orchestrator.server.frontend.listening_sockets import listening_sockets
from rankmesh.orchestrator.server.frontend.settings import ServerSettings
from rankmesh.orchestrator.server.grpc import inference_calls
from rankmesh.orchestrator.server.grpc.protocol.inference import ModelInferResponse
from rankmesh.orchestrator.server.grpc.transport.library import grpc
from rankmesh.orchestrator.server.inference import InferenceService
from rankmesh.orchestrator.server.observation.access_log import AccessLogSettings, LogForm
from rankmesh.orchestrator.server.processes.connected_models import ConnectedModels
from rankmesh.orchestrator.server.processes.told_health import ToldHealth
from rankmesh.orchestrator.server.server_state import ServerState
from rankmesh.orchestrator.server.shared_memory.client_regions import ClientRegions

SMALL, LARGE = 4, 40_000
"""Elements of a body that is received whole, and of one whose tensor is received in place."""

FIRST, MORE = 3, 5
FORMS = pytest.mark.parametrize("connected", [False, True], ids=["own", "connected"])
LOGS = pytest.mark.parametrize("logged", [False, True], ids=["unobserved", "logged"])


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    paths = [echo(tmp_path_factory.mktemp(f"echo{size}"), size) for size in (SMALL, LARGE)]
    with Orchestrator(paths[0]) as made:
        made.load(paths[1], name="large")
        yield made


@asynccontextmanager
async def listening(
    orchestrator: Orchestrator, log: Path | None, connected: bool
) -> AsyncIterator[tuple[int, int]]:
    """The ports of a frontend in this loop: of the orchestrator's process, or of one that is
    connected to it.
    """
    access_log = AccessLogSettings() if log is None else AccessLogSettings(LogForm.JSON, str(log))
    state, forwarder = ServerState(), None
    if connected:
        ours, theirs = socket.socketpair()
        orchestrator.admit(theirs)
        models = await ConnectedModels.connected(ours, lambda: None)
        state.serve(InferenceService(models, asyncio.get_running_loop()), ToldHealth())
        forwarder = cast(Forwarder, object())  # nothing here is forwarded
    else:
        state.start(orchestrator)
    settings = ServerSettings(grpc_port=0, access_log=access_log)
    frontend = Frontend(settings, "1", state, ClientRegions(), forwarder)
    ports = await frontend.listen(listening_sockets("127.0.0.1", 0))
    assert ports.grpc is not None
    try:
        yield ports.http, ports.grpc
    finally:
        await frontend.close()
        state.close()


def request(x: np.ndarray, model: str, *headers: str) -> bytes:
    document = {"inputs": [binary("x", x)], "parameters": {"binary_data_output": True}}
    text = json.dumps(document).encode()
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: localhost", *headers]
    lines += [f"Inference-Header-Content-Length: {len(text)}"]
    lines += [f"Content-Length: {len(text) + x.nbytes}", "", ""]
    return "\r\n".join(lines).encode() + text + x.tobytes()


async def answered(port: int, model: str, size: int, count: int) -> list[str]:
    """The heads of the responses to requests that are alike, whose tensors are right."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heads = []
    for number in range(count):
        x = np.full(size, number, np.float32)
        writer.write(request(x, model))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 200"), head
        length = int(head.partition("\r\ncontent-length: ")[2].partition("\r")[0])
        assert (await reader.readexactly(length)).endswith(x.tobytes())
        heads.append(head)
    writer.close()
    return heads


def tasks_counted() -> list[str]:
    """The names of all tasks that the running loop makes from here on."""
    made: list[str] = []

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(make)
    return made


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@FORMS
@LOGS
@pytest.mark.parametrize(("model", "size"), [("echo", SMALL), ("large", LARGE)])
def test_rest_makes_no_task_of_them(
    orchestrator: Orchestrator, tmp_path: Path, logged: bool, connected: bool, model: str, size: int
) -> None:
    log = tmp_path / "log" if logged else None

    async def main() -> tuple[list[str], list[str]]:
        async with listening(orchestrator, log, connected) as (port, _):
            await answered(port, model, size, FIRST)
            made = tasks_counted()
            return await answered(port, model, size, MORE), made

    heads, made = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert not any("HttpConnection" in name for name in made), made
    if log is None:
        assert not any("x-request-id" in head for head in heads)
        return
    ids = [head.partition("x-request-id: ")[2].partition("\r")[0] for head in heads]
    lines = lines_of(log)
    assert [line["id"] for line in lines[-MORE:]] == ids and len({*ids}) == MORE
    for line in lines:
        assert (line["status"], line["model"], line["version"]) == ("200", model, "1")
        assert (line["path"], line["client"]) == (f"/v2/models/{model}/infer", "127.0.0.1")
        assert line["bytes_in"] > 4 * size < line["bytes_out"]
        assert line["seconds"] >= line["run_seconds"] > 0 <= line["queue_seconds"]


@FORMS
@LOGS
def test_grpc_reads_them_without_protobuf(
    orchestrator: Orchestrator,
    tmp_path: Path,
    logged: bool,
    connected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log" if logged else None
    decoded: list[bytes] = []
    monkeypatch.setattr(
        inference_calls,
        "decoded",
        lambda body, inner=inference_calls.decoded: decoded.append(body) or inner(body),
    )

    async def main() -> None:
        async with (
            listening(orchestrator, log, connected) as (_, port),
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            for number in range(FIRST + MORE):
                x = np.full(SMALL, number, np.float32)
                body = infer_message("echo", {"x": x}).SerializeToString()
                answer = ModelInferResponse.FromString(await call(body))
                assert answer.raw_output_contents[0] == x.tobytes()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert len(decoded) < FIRST
    if log is not None:
        found = [(line["status"], line["model"], line["version"]) for line in lines_of(log)]
        assert found == [("OK", "echo", "1")] * (FIRST + MORE)
        assert all(line["run_seconds"] > 0 for line in lines_of(log))


def test_a_client_that_leaves_in_the_middle_of_its_body_has_a_line(
    orchestrator: Orchestrator, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    async def main() -> None:
        async with listening(orchestrator, log, False) as (port, _):
            for model, size in (("echo", SMALL), ("large", LARGE)):
                await answered(port, model, size, FIRST)
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request(np.zeros(size, np.float32), model)[:-1])
                await writer.drain()
                writer.close()
                await writer.wait_closed()
                while not any(line["status"] == "499" for line in lines_of(log)[-1:]):
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    left = [line for line in lines_of(log) if line["status"] == "499"]
    assert [line["path"] for line in left] == ["/v2/models/echo/infer", "/v2/models/large/infer"]
    assert all(line["run_seconds"] is None for line in left)
