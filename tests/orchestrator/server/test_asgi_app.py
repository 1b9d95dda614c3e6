"""The ASGI application under a stock server, and `rankmesh.serve` in a program of a user."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from processes import PATIENCE
from served_http import ServerProcess, binary, tensor
from served_models import echo

import rankmesh

X = np.arange(4, dtype=np.float32)


def test_an_asgi_server_can_run_it(tmp_path: Path) -> None:
    async def exchange(app: Any, body: list[bytes], **scope: Any) -> tuple[int, bytes]:
        """What an ASGI server does for one request."""
        events = [{"type": "http.request", "body": one, "more_body": True} for one in body]
        events.append({"type": "http.request", "body": b""})
        sent: list[Any] = []

        async def receive() -> Any:
            if events:
                return events.pop(0)
            await asyncio.Event().wait()

        async def send(event: Any) -> None:
            sent.append(event)

        length = str(sum(map(len, body))).encode()
        headers = [(b"content-length", length), *scope.pop("headers", [])]
        await app({"type": "http", "headers": headers, **scope}, receive, send)
        return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])

    async def ask(app: Any) -> None:
        path = "/ml/v2/models/echo"
        status, found = await exchange(app, [], method="GET", path=path, root_path="/ml")
        assert status == 200 and json.loads(found)["name"] == "echo"
        head = json.dumps({"inputs": [binary("x", X)]}).encode()
        headers = [(b"inference-header-content-length", str(len(head)).encode())]
        post = {"method": "POST", "path": "/v2/models/echo/infer"}
        status, found = await exchange(app, [head, X.tobytes()], headers=headers, **post)
        assert json.loads(found)["outputs"][0]["data"] == X.tolist()
        assert (await exchange(app, [bytes(2000)], **post))[0] == 413

    with rankmesh.Orchestrator(echo(tmp_path, 4)) as orchestrator:
        app = rankmesh.asgi_app(orchestrator, max_body_bytes=1000)
        for _ in range(2):  # tests of frameworks run a loop for each request
            asyncio.run(ask(app))


def test_a_program_serves_its_orchestrator_until_term(tmp_path: Path) -> None:
    program = f"""
import rankmesh, threading
with rankmesh.Orchestrator({echo(tmp_path, 4)!r}) as orchestrator:
    rankmesh.serve(orchestrator, port=0, on_listening=lambda port: print(port, flush=True))
    print(orchestrator.status().state)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            server = ServerProcess(process, int(process.stdout.readline()))
            assert server.infer("echo", [tensor("x", X)]).json["outputs"][0]["data"] == X.tolist()
            assert server.terminate() == 0
            assert process.communicate(timeout=PATIENCE)[0] == "draining\n"
        finally:
            process.kill()
