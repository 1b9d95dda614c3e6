"""Servers of tests: `rankmesh serve` as a process, and requests to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from processes import PATIENCE, wait_until


@dataclass(frozen=True)
class Reply:
    """One response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]

    def array(self, dtype: Any = np.float32) -> np.ndarray:
        """The one output behind the document."""
        start = int(self.headers["inference-header-content-length"])
        return np.frombuffer(self.body[start:], dtype)


@dataclass(frozen=True)
class ServerProcess:
    """A running `rankmesh serve`."""

    process: subprocess.Popen[str]
    port: int
    grpc_port: int = 0
    trust: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """What each request has besides."""

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own."""
        address = "127.0.0.1", self.port
        connection = (
            http.client.HTTPConnection(*address, timeout=PATIENCE)
            if self.trust is None
            else http.client.HTTPSConnection(*address, timeout=PATIENCE, context=self.trust)
        )
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, document: object, tail: bytes = b"", **headers: str) -> Reply:
        """A document, and bytes behind it."""
        head = json.dumps(document).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if tail:
            given["Inference-Header-Content-Length"] = str(len(head))
        return self.ask("POST", path, head + tail, given)

    def infer(self, model: str, inputs: list[dict[str, Any]], **document: Any) -> Reply:
        return self.post(f"/v2/models/{model}/infer", {"inputs": inputs, **document})

    def accepted(self, model: str) -> int:
        """How many requests to a model have come so far, those that wait for their answer too."""
        page = self.get("/metrics").body.decode()
        found = re.findall(
            rf'^rankmesh_accepted_total{{model="{model}",version="\d+"}} (\S+)$', page, re.M
        )
        return sum(int(float(one)) for one in found)

    def terminate(self) -> int:
        """Its status after TERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(
    model: str | Path,
    *options: str,
    program: Sequence[str] = ("-m", "rankmesh"),
    trust: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """A server that is ready, on a free port; by TLS where `trust` is given."""
    command = [sys.executable, *program, "serve", str(model), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"listening on https?://[^:]+:(\d+)(?:.* gRPC on [^:]+:(\d+))?", line)
            assert found, process.stderr.read()
            server = ServerProcess(process, int(found[1]), int(found[2] or 0), trust, headers or {})
            wait_until(lambda: server.get("/v2/health/ready").status == 200, "the models")
            yield server
        finally:
            process.kill()


def tensor(name: str, array: np.ndarray, datatype: str = "FP32") -> dict[str, Any]:
    """An input in JSON."""
    return {
        "name": name,
        "shape": list(array.shape),
        "datatype": datatype,
        "data": array.reshape(-1).tolist(),
    }


def binary(name: str, array: np.ndarray, datatype: str = "FP32") -> dict[str, Any]:
    """An input whose elements follow the document."""
    parameters = {"binary_data_size": array.nbytes}
    return {
        "name": name,
        "shape": list(array.shape),
        "datatype": datatype,
        "parameters": parameters,
    }
