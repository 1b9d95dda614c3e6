"""Real ranks for the tests of collectives: processes that share an arena and answer with one JSON
line.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fork_server import ForkServer

from rankmesh.comm.collectives.registry import SHARED_MEMORY
from rankmesh.comm.job_memory.arena import Arena

_DEADLINE = 120.0
_BY_TORCH = "rankmesh.comm.collectives.libraries.torch_distributed"


class Ranks:
    """The processes of one scenario of collective_rank.py, and the arena as their launcher sees it.

    `hosts` lists the ranks that share an arena, as those of a host do; by default all.
    """

    def __init__(self, server: ForkServer, world: int, scenario: str, **arguments: Any) -> None:
        hosts = arguments.setdefault("hosts", [list(range(world))])
        self.arenas = [Arena.create(world) for _ in hosts]
        self.arena = self.arenas[0]
        job = {
            "key": f"test {os.getpid()} {os.fstat(self.arena.fd).st_ino}",
            "world": world,
            "scenario": scenario,
            **arguments,
        }
        arena_of = {
            rank: arena for host, arena in zip(hosts, self.arenas, strict=True) for rank in host
        }
        self.processes = [
            server.start({**job, "rank": rank}, [arena_of[rank].fd]) for rank in range(world)
        ]

    def answer(self, rank: int) -> dict[str, Any]:
        """Wait until a rank has ended and return what it said."""
        out, err = self.processes[rank].communicate(_DEADLINE)
        assert out, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    def kill(self, rank: int) -> None:
        """Kill a rank, and wait for its end."""
        self.processes[rank].send_signal(signal.SIGKILL)
        self.processes[rank].wait(_DEADLINE)

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        for process in self.processes:
            process.end(_DEADLINE)
        for arena in self.arenas:
            arena.close()


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[Callable[[str], ForkServer]]:
    """The fork server for ranks of a backend; it is started when it is first asked for."""
    started: dict[tuple[str, ...], ForkServer] = {}

    def server(backend: str) -> ForkServer:
        modules = (
            ("collective_rank",) if backend == SHARED_MEMORY else ("collective_rank", _BY_TORCH)
        )
        if modules not in started:
            started[modules] = ForkServer(*modules)
        return started[modules]

    yield server
    for one in started.values():
        one.end()


@pytest.fixture
def start_ranks(fork_servers: Callable[[str], ForkServer]) -> Iterator[Callable[..., Ranks]]:
    """Start a scenario: `start_ranks(world, name, **arguments)`; its processes end with the
    test."""
    started: list[Ranks] = []

    def start(world: int, scenario: str, by: str = SHARED_MEMORY, **arguments: Any) -> Ranks:
        started.append(Ranks(fork_servers(by), world, scenario, by=by, **arguments))
        return started[-1]

    yield start
    for ranks in started:
        ranks.end()
