"""The schedule of signals by which processes are ended."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.processes.event_loop import EventLoop
from rankmesh.comm.processes.process_ender import ASKED, AT_ONCE, ProcessEnder, Schedule
from rankmesh.comm.processes.rank_process import Command, RankProcess

LATER, NEVER = 1.2, 600.0
"""Seconds after which a process ends by itself; ASKED gives 0.8."""


@pytest.fixture
def process(lasts: float) -> Iterator[RankProcess]:
    """A process that has begun to run."""
    arena = Arena.create(1)
    code = f"import time; print('here', flush=True); time.sleep({lasts})"
    command = Command((sys.executable, "-c", code))
    lines: list[str] = []
    made = RankProcess(
        Rank(0, 1, 0, 1, "here", 0), command, arena, lambda rank, stream, line: lines.append(line)
    )
    while not lines:
        made.read_outputs()
        time.sleep(0.01)
    yield made
    made.kill()
    made.status()
    made.close()
    arena.close()


def turn_until_over(loop: EventLoop, ender: ProcessEnder) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ender.over:
        assert time.monotonic() < deadline
        loop.turn(1.0)


@pytest.mark.parametrize(
    ("schedule", "saving", "lasts", "status"),
    [
        (ASKED, False, NEVER, -signal.SIGTERM),
        (ASKED, True, LATER, 0),
        (AT_ONCE, True, NEVER, -signal.SIGKILL),
    ],
)
def test_only_a_rank_that_still_writes_is_waited_for(
    process: RankProcess, schedule: Schedule, saving: bool, status: int
) -> None:
    loop = EventLoop()
    released: list[RankProcess] = []
    finished: list[bool] = []
    ender = ProcessEnder(
        [process],
        schedule,
        loop,
        released.append,
        lambda left: finished.append(not left),
        lambda _: saving,
    )
    turn_until_over(loop, ender)
    assert (released, finished, ender.left) == ([process], [True], [])
    assert process.status() == status
    loop.close()


def test_without_processes_the_end_is_told_from_the_loop() -> None:
    loop = EventLoop()
    finished: list[bool] = []
    ender = ProcessEnder(
        [], AT_ONCE, loop, lambda _: None, lambda left: finished.append(not left), lambda _: False
    )
    assert not ender.over
    turn_until_over(loop, ender)
    assert finished == [True]
    loop.close()
