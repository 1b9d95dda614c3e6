"""Clients of a server whose ranks and server processes are killed: which requests fail, and why.

    python bench/serving_chaos.py --python PYTHON [--seconds 60] [--rank 3] [--process 7]

PYTHON has tritonclient[all], in an environment of its own. A rank gets SIGKILL every `--rank`
seconds, one of two server processes every `--process` seconds. Eight clients, half by REST and half
by gRPC, check every answer. A failure is expected where the client's connection ended in the server
process that was killed. gRPC's clients can meet that process once more when they connect again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from report import print_machine, print_table
from served_process import ServedProcess, served

_CLIENT = str(Path(__file__).parent / "serving_chaos_client.py")
_CLIENTS = 8
_CHILD = "rankmesh.orchestrator.server.processes.child"
_CLASSES = {
    "closed": "failed with a killed process",
    "again": "failed to connect again",
    "otherwise": "failed otherwise",
}
_REFUSED = "failed to connect"
_NOTICED = 6.0
"""Seconds after a kill within which a client notices that its connection was closed."""


class Client:
    """A process that asks one request after the other."""

    def __init__(self, python: str, protocol: str, port: int) -> None:
        pipe = subprocess.PIPE
        command = [python, _CLIENT, protocol, f"127.0.0.1:{port}"]
        self.protocol = protocol
        self._process = psutil.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._process.stdout.readline()  # its first answer is there

    def ports(self) -> set[int]:
        """The ports of its connections."""
        return {one.laddr.port for one in self._process.net_connections()}

    def end(self) -> dict[str, Any]:
        """How its requests have fared."""
        found: dict[str, Any] = json.loads(self._process.communicate("\n")[0])
        return found


@dataclass
class Kills:
    """What was killed, and the clients that had a connection to it."""

    ranks: int = 0
    processes: list[tuple[float, set[Client]]] = field(default_factory=list)

    def rank(self, server: ServedProcess) -> None:
        """Kill a rank, unless all are being started again."""
        for one in _any(server.ranks()):
            one.kill()
            self.ranks += 1

    def process(self, server: ServedProcess, clients: list[Client]) -> None:
        """The same with a server process; it is stopped while its connections are looked up."""
        for one in _any(server.children(_CHILD)):
            one.send_signal(signal.SIGSTOP)
            ends = {each.raddr.port for each in one.net_connections() if each.raddr}
            connected = {client for client in clients if client.ports() & ends}
            self.processes.append((time.monotonic(), connected))
            one.kill()

    def classes(self, client: Client, failed: list[tuple[float, str]]) -> Counter[str]:
        """A client's failures: `closed` with the connection to a killed process, one for each;
        `again`, where it could not connect after that; `otherwise`.
        """
        found = Counter[str]()
        lost = [at for at, connected in self.processes if client in connected]
        closed = set[float]()
        for moment, text in failed:
            killed = max((at for at in lost if at <= moment <= at + _NOTICED), default=None)
            if killed is not None and killed not in closed:
                closed.add(killed)
                found["closed"] += 1
            else:
                found["again" if killed is not None and _REFUSED in text else "otherwise"] += 1
        return found


def _any(processes: list[psutil.Process]) -> list[psutil.Process]:
    """One of them, if there is any."""
    return [processes[secrets.randbelow(len(processes))]] if processes else []


def moments(given: argparse.Namespace) -> Iterator[tuple[float, str]]:
    """When what is killed, in seconds from the begin."""
    found = []
    for name in ("rank", "process"):
        period = getattr(given, name)
        found += [(period * turn, name) for turn in range(1, int(given.seconds / period) + 1)]
    yield from sorted(found)


def run(given: argparse.Namespace) -> None:
    """Kill, and print what the clients saw."""
    print_machine("grpcio", "uvloop")
    with served("--threads", "1", "--replicas", "2", "--server-processes", "2") as server:
        asyncio.run(server.ready())
        ports = {"rest": server.port, "grpc": server.grpc_port}
        protocols = [*ports] * (_CLIENTS // 2)
        clients = [Client(given.python, one, ports[one]) for one in protocols]
        kills, begun = Kills(), time.monotonic()
        for at, what in moments(given):
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if what == "rank":
                kills.rank(server)
            else:
                kills.process(server, clients)
        time.sleep(_NOTICED)
        found = [(client, client.end()) for client in clients]
        print_outcome(kills, found, server.counters())


def print_outcome(
    kills: Kills, found: list[tuple[Client, dict[str, Any]]], counters: dict[str, float]
) -> None:
    """The table, and what clients saw that failed."""
    rows, wrongly = [], 0
    for protocol in ("rest", "grpc"):
        own = [(client, told) for client, told in found if client.protocol == protocol]
        classes = Counter[str]()
        for client, told in own:
            classes += kills.classes(client, told["failed"])
        wrong = sum(told["wrong"] for _, told in own)
        wrongly += classes["otherwise"] + wrong
        seconds = sorted(one for _, told in own for one in told["seconds"])
        times = [f"{1e3 * seconds[len(seconds) * part // 1000]:.0f}" for part in (500, 990, 999)]
        counts = [len(seconds), wrong, *(classes[one] for one in _CLASSES)]
        rows.append([protocol, *map(str, counts), *times, f"{1e3 * seconds[-1]:.0f}"])
    header = ["clients", "answered", "wrong", *_CLASSES.values()]
    print_table([*header, "p50 ms", "p99 ms", "p99.9 ms", "longest ms"], rows)
    print(f"killed: {kills.ranks} ranks, {len(kills.processes)} server processes")
    print("server:", {name: round(value) for name, value in counters.items()})
    kinds = Counter(text for _, told in found for _, text in told["failed"])
    print_table(["what clients saw", "requests"], [[text, str(n)] for text, n in kinds.items()])
    print(f"wrong, or failed otherwise: {wrongly}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rank", type=float, default=3)
    parser.add_argument("--process", type=float, default=7)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
