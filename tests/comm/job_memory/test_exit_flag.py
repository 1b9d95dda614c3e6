"""The kernel marks the exit flag of a rank when its process begins to end."""

from __future__ import annotations

import queue
import subprocess
import sys
from collections.abc import Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.exit_flag import ExitFlag, ExitMonitor

RANK = """
import os
import sys
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.exit_flag import hold_exit_flag
fd, rank = map(int, sys.argv[1:])
arena = Arena.attach(fd, rank)
hold_exit_flag(arena, rank)
arena.grow(64 << 20)  # the arena's own mapping moves
print("held", flush=True)
sys.stdin.readline()
os._exit(0)
"""


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena.create(2)
    yield made
    made.close()


@pytest.fixture
def processes(arena: Arena) -> Iterator[list[subprocess.Popen[str]]]:
    """Two ranks, each of which ends at the next line that it reads."""
    made = [_started(arena, rank) for rank in range(2)]
    yield made
    for process in made:
        process.kill()
        process.communicate()


def _started(arena: Arena, rank: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", RANK, str(arena.fd), str(rank)],
        pass_fds=(arena.fd,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "ended"])
def test_the_rank_that_ends_is_named(
    arena: Arena, processes: list[subprocess.Popen[str]], killed: bool
) -> None:
    died = queue.Queue[int]()
    watch = ExitMonitor(arena, range(arena.world_size), died.put)
    watch.start()
    if killed:
        processes[1].kill()
    else:
        print(file=processes[1].stdin, flush=True)
    assert died.get(timeout=PATIENCE) == 1
    assert [ExitFlag(arena, rank).is_set for rank in range(2)] == [False, True]
    watch.join(PATIENCE)
    assert not watch.is_alive()  # it tells once


@pytest.mark.usefixtures("processes")
def test_nobody_is_named_while_all_live(arena: Arena) -> None:
    died = queue.Queue[int]()
    watch = ExitMonitor(arena, range(arena.world_size), died.put)
    watch.start()
    watch.stop()
    watch.join(PATIENCE)
    assert not watch.is_alive() and died.empty()
