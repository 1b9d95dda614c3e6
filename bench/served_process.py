"""A server under test: `rankmesh serve` with an echo model, its answers, and what it holds."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
from onnx import TensorProto, helper, save

NUMBERS = 1024
"""Elements of a request: 4 KB of float32."""

_READY = 60.0


@dataclass(frozen=True)
class Holding:
    """What a process holds at a moment; memory in KiB."""

    rss: int
    pss: int
    fds: int
    threads: int


class ServedProcess:
    """A running server."""

    def __init__(self, process: psutil.Popen, port: int, grpc_port: int) -> None:
        self.process = process
        self.port = port
        self.grpc_port = grpc_port

    def ranks(self) -> list[psutil.Process]:
        """Its rank processes."""
        return self.children("rank=")

    def children(self, part: str) -> list[psutil.Process]:
        """Its living children that have `part` in their command."""
        found = []
        for one in self.process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # zombies are none
                if part in " ".join(one.cmdline()):
                    found.append(one)
        return found

    def holds(self) -> Holding:
        """What the server itself holds."""
        return held_by(self.process)

    def counters(self) -> dict[str, float]:
        """Counters of the page of metrics, with all models, versions and errors added up."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as page:  # nosec B310
            found = re.findall(
                r"(?m)^rankmesh_(\w+?)(?:_total)?\{.*\} (\S+)$", page.read().decode()
            )
        totals: Counter[str] = Counter()
        for name, value in found:
            if "seconds" not in name:
                totals[name] += float(value)
        return dict(totals)

    async def ready(self) -> None:
        """Wait until the models answer."""
        from serving_clients import RestClient

        async with asyncio.timeout(_READY), RestClient(self.port) as client:
            while (await client.ask(b"GET", "/v2/health/ready"))[0] != 200:
                await asyncio.sleep(0.05)


def held_by(process: psutil.Process) -> Holding:
    """What a process holds now."""
    memory = process.memory_full_info()
    return Holding(memory.rss >> 10, memory.pss >> 10, process.num_fds(), process.num_threads())


@contextmanager
def served(*options: str) -> Iterator[ServedProcess]:
    """A server of the model `echo` on free ports, which is ended at the end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "rankmesh", "serve", echo_model(folder)]
        ports = ["--port", "0", "--grpc-port", "0"]
        process = psutil.Popen([*command, *ports, *options], stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            found = re.search(r"http://[^:]+:(\d+).* gRPC on [^:]+:(\d+)", line)
            assert found, line + process.stderr.read()
            process.stderr.readline()
            Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop it
            yield ServedProcess(process, int(found[1]), int(found[2]))
        finally:
            with suppress(psutil.NoSuchProcess):  # it was ended already
                process.terminate()
            process.wait()


def echo_model(folder: str) -> str:
    """The path of a model with y = x, of rows of any number."""
    shape = ["rows", NUMBERS]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    identity = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([identity], "echo", values[:1], values[1:])
    path = str(Path(folder) / "echo.onnx")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def write_line(path: str, **values: Any) -> None:
    """Add a line of JSON to a file."""
    plain = {key: asdict(one) if isinstance(one, Holding) else one for key, one in values.items()}
    with open(path, "a") as file:
        file.write(json.dumps(plain) + "\n")
