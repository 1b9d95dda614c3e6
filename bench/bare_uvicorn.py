"""Bare application on uvicorn: reads a body, and answers each request with the same 4 KB."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

TENSOR = array("f", range(1024)).tobytes()
OUTPUT = {
    "name": "y",
    "datatype": "FP32",
    "shape": [1024],
    "parameters": {"binary_data_size": len(TENSOR)},
}
TEXT = json.dumps({"model_name": "echo", "model_version": "1", "outputs": [OUTPUT]}).encode()
HEADERS = [
    (b"content-type", b"application/octet-stream"),
    (b"inference-header-content-length", b"%d" % len(TEXT)),
    (b"content-length", b"%d" % (len(TEXT) + len(TENSOR))),
]


async def answer(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """One request."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": TEXT + TENSOR})


class ToldServer(uvicorn.Server):
    """A server that tells its port."""

    async def startup(self, sockets: Any = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"bare :{port}\nready", file=sys.stderr, flush=True)


if __name__ == "__main__":
    config = uvicorn.Config(
        answer, port=0, log_level="warning", access_log=False, loop="uvloop", http="httptools"
    )
    ToldServer(config).run()
