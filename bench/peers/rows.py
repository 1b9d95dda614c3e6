"""Rows of serving_peers.py: contenders that take turns, each with a server and a load generator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from peers.servers import HERE, NAME, PREFIX, Peers, Server, started


@dataclass(frozen=True)
class Contender:
    """A server under a load. `server` is the server's name, with a mark behind it where a name has
    several; empty: the generator has none. `against` is the contender of Rankmesh that is compared,
    and `bar` what the ratio should be.
    """

    name: str
    server: str
    load: tuple[str, ...]
    against: str = ""
    bar: str = ""


@dataclass(frozen=True)
class Turn:
    """What one turn found: requests a second, milliseconds of the median request, and microseconds
    of processor time per request, of all server processes and of Rankmesh's ranks.
    """

    rate: float
    milliseconds: float
    server: float
    ranks: float


@dataclass(frozen=True)
class Row:
    """A model, its contenders, and which figure is compared."""

    title: str
    model: str
    workers: int
    contenders: Sequence[Contender]
    figure: str = "rate"


def http_load(form: str, clients: int, seconds: float) -> tuple[str, ...]:
    """The generator that all servers share."""
    script = str(HERE / "http_load.py")
    return (sys.executable, script, "{port}", form, "{values}", str(clients), str(seconds))


def socket_load(kind: str, seconds: float) -> tuple[str, ...]:
    """One plain socket."""
    script = str(HERE / "socket_load.py")
    return (sys.executable, script, "{port}", kind, "{values}", str(seconds))


def triton_load(python: str, kind: str, clients: int, seconds: float) -> tuple[str, ...]:
    """Triton's client, of the environment of `python`."""
    port = "{grpc_port}" if kind == "grpc" else "{port}"
    script = [str(HERE / "triton_load.py"), port, kind, "{values}", str(clients), str(seconds)]
    return (python, *script, PREFIX)


def connect_load(seconds: float) -> tuple[str, ...]:
    """A program that connects to the orchestrator behind the server."""
    return (
        sys.executable,
        str(HERE / "connect_load.py"),
        f"{NAME}{{port}}",
        "{values}",
        str(seconds),
    )


def in_process(workers: int, clients: int, seconds: float) -> tuple[str, ...]:
    """An orchestrator whose clients are threads of its own program."""
    script = [str(HERE / "in_process.py"), "{model}", "{values}"]
    return (sys.executable, *script, str(workers), str(clients), str(seconds))


class Generator:
    """A load generator that waits for its turn."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def turn(self) -> dict[str, float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def ready(self) -> None:
        self._answer()

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(line)
        return found


def measured(row: Row, folder: Path, peers: Peers, rounds: int) -> Mapping[str, list[Turn]]:
    """The turns of all contenders, one a round; each round another one begins."""
    model = folder / f"{row.model}.onnx"
    names = list(dict.fromkeys(one.server for one in row.contenders if one.server))
    found: dict[str, list[Turn]] = {one.name: [] for one in row.contenders}
    plain = [name.partition(" ")[0] for name in names]
    with started(plain, model, row.workers, peers) as running, ExitStack() as stack:
        servers = dict(zip(names, running, strict=True))
        ready = [
            (one, servers.get(one.server), stack.enter_context(_generator(one, servers, model)))
            for one in row.contenders
        ]
        for number in range(rounds + 1):
            shift = number % len(ready)
            for one, server, generator in ready[shift:] + ready[:shift]:
                found[one.name].append(_turn(server, generator))
    return {name: turns[1:] for name, turns in found.items()}  # the first round warms


@contextmanager
def _generator(
    contender: Contender, servers: Mapping[str, Server], model: Path
) -> Iterator[Generator]:
    places = {"model": str(model), "values": str(model.with_suffix(".npz"))}
    if contender.server:
        served = servers[contender.server].served
        places |= {"port": str(served.port), "grpc_port": str(served.grpc_port)}
    generator = Generator([part.format(**places) for part in contender.load])
    try:
        generator.ready()
        yield generator
    finally:
        generator.end()


def _turn(server: Server | None, generator: Generator) -> Turn:
    before = server.seconds() if server else (0.0, 0.0)
    found = generator.turn()
    after = server.seconds() if server else (0.0, 0.0)
    count = found["requests"]
    spent, ranks = (1e6 * (end - begun) / count for begun, end in zip(before, after, strict=True))
    return Turn(count / found["wall"], 1e3 * found["median"], spent, ranks)
