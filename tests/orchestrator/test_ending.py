"""Processes that have been asked to end, and how long they are given."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.arena import Arena
from rankmesh.comm.processes.rank_process import Command, RankProcess
from rankmesh.comm.rank import Rank
from rankmesh.orchestrator.ending import ASKED, Ending
from rankmesh.orchestrator.loop import Loop

LATER = 1.2
"""Seconds after which the process ends by itself; ASKED gives 0.8."""


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    made.start()
    yield made
    made.stop()
    made.join()


@pytest.mark.parametrize(("keeping", "status"), [(False, -signal.SIGTERM), (True, 0)])
def test_only_a_rank_that_still_writes_is_waited_for(loop: Loop, keeping: bool, status: int) -> None:
    started, ended, made = threading.Event(), threading.Event(), list[RankProcess]()
    arena = Arena.create(1)

    def end() -> None:
        code = f"import time; print('here', flush=True); time.sleep({LATER})"
        command = Command((sys.executable, "-c", code))
        process = RankProcess(Rank(0, 1, 0, 1, "here", 0), command, arena, lambda *_: None)
        made.append(process)
        Ending(made, ASKED, loop, ended.set, lambda _: keeping)
        started.set()

    loop.call_soon(end)
    assert started.wait(PATIENCE) and ended.wait(PATIENCE)
    assert made[0].status() == status
    arena.close()
