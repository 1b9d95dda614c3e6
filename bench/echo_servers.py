"""Echo servers under load: their processor time per request, and their requests a second, in turns.

Each server is a process of its own. Its first line on stderr ends with its port, and the second
says that it is ready. A load generator of its own sends requests and checks every reply.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from onnx import TensorProto, helper, save
from report import print_table, spread

SIZE = 1024
ARRAY = np.arange(SIZE, dtype=np.float32)
MODEL = "{model}"
"""The word of a command for the path of the echo model."""


@dataclass(frozen=True)
class Load:
    """What a load generator sends: so many requests, by so many clients at a time."""

    requests: int
    clients: int

    @property
    def each(self) -> int:
        """The requests of one client."""
        return self.requests // self.clients


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time per request, of a server and of the processes that it has
    started; and requests a second.
    """

    own: float
    ranks: float
    rate: float


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: psutil.Process
    port: int

    def seconds(self) -> tuple[float, float]:
        """Processor time so far: of the process, and of those that it has started."""
        return _seconds(self.process), sum(map(_seconds, self.process.children(recursive=True)))


def compare(
    commands: Mapping[str, Sequence[str]], generator: str, rounds: int, load: Load
) -> Mapping[str, Cost]:
    """Measure all servers in turn, and print a table; ratios are to the first one. The medians.

    `generator` is a script that takes `--load PORT --requests N --clients N`.
    """
    with ExitStack() as stack:
        model = _echo_model(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {
            name: stack.enter_context(_started([model if one == MODEL else one for one in command]))
            for name, command in commands.items()
        }
        found: dict[str, list[Cost]] = {name: [] for name in servers}
        for _ in range(rounds + 1):
            for name, server in servers.items():
                found[name].append(_measured(server, generator, load))
    measured = {name: costs[1:] for name, costs in found.items()}  # the first round warms
    _print(measured)
    return {name: _median(costs) for name, costs in measured.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(median(getattr(one, key) for one in costs) for key in ("own", "ranks", "rate")))


def _print(found: Mapping[str, Sequence[Cost]]) -> None:
    header = ["server", "µs of the server", "ratio", "µs of its ranks", "requests a second"]
    base = next(iter(found.values()))
    rows = []
    for name, costs in found.items():
        ratio = median(one.own / other.own for one, other in zip(costs, base, strict=True))
        own = spread([one.own for one in costs], 0)
        ranks = f"{median(one.ranks for one in costs):.0f}"
        rows.append([name, own, f"{ratio:.2f}", ranks, spread([one.rate for one in costs], 0)])
    print_table(header, rows)


def _measured(server: Server, generator: str, load: Load) -> Cost:
    options = ["--requests", str(load.requests), "--clients", str(load.clients)]
    command = [sys.executable, generator, "--load", str(server.port), *options]
    before = server.seconds()
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    own, ranks = (
        (after - start) / load.requests * 1e6
        for after, start in zip(server.seconds(), before, strict=True)
    )
    return Cost(own, ranks, load.requests / float(output))


@contextmanager
def timed() -> Iterator[None]:
    """Print the seconds of a load generator's requests, without its start."""
    begun = time.monotonic()
    yield
    print(time.monotonic() - begun)


@contextmanager
def _started(command: Sequence[str]) -> Iterator[Server]:
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r":(\d+)\n$", line)
            assert found, line + process.stderr.read()
            process.stderr.readline()
            yield Server(psutil.Process(process.pid), int(found[1]))
        finally:
            process.terminate()


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _echo_model(folder: str) -> str:
    """y = x."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in ("x", "y")]
    identity = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([identity], "echo", values[:1], values[1:])
    path = str(Path(folder) / "echo.onnx")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path
