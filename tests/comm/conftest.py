"""Real ranks for the tests of collectives: processes that share an arena and answer with one JSON
line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rankmesh.comm.job_memory.arena import Arena

_PROGRAM = Path(__file__).parents[1] / "support" / "collective_rank.py"
_DEADLINE = 120.0


class Ranks:
    """The processes of one scenario of collective_rank.py, and the arena as their launcher sees
    it."""

    def __init__(self, world: int, scenario: str, **arguments: Any) -> None:
        self.arena = Arena.create(world)
        job = {
            "fd": self.arena.fd,
            "key": f"test {os.getpid()} {os.fstat(self.arena.fd).st_ino}",
            "world": world,
            "scenario": scenario,
            **arguments,
        }
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps({**job, "rank": rank})],
                pass_fds=(self.arena.fd,),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]

    def answer(self, rank: int) -> dict[str, Any]:
        """Wait until a rank has ended and return what it said."""
        out, err = self.processes[rank].communicate(timeout=_DEADLINE)
        assert self.processes[rank].returncode == 0, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.arena.close()


@pytest.fixture
def start_ranks() -> Iterator[Callable[..., Ranks]]:
    """Start a scenario: `start_ranks(world, name, **arguments)`; its processes end with the
    test."""
    started: list[Ranks] = []

    def start(world: int, scenario: str, **arguments: Any) -> Ranks:
        started.append(Ranks(world, scenario, **arguments))
        return started[-1]

    yield start
    for ranks in started:
        ranks.end()
