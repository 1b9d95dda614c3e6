"""Nothing is left: of orchestrators that are closed, of ranks that are replaced, of programs that
are killed.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from leftovers import holdings, nothing_left
from moody import FOR_EVER, expected, inputs, moody, paused, strike, wait_running
from processes import segments, wait_until

from rankmesh import Closed, Orchestrator


def test_an_orchestrator_leaves_nothing_whatever_its_ranks_are_doing(tmp_path: Path) -> None:
    path = moody(tmp_path, 2)
    with nothing_left():
        with Orchestrator(path) as orchestrator:
            orchestrator.predict(inputs())
        with Orchestrator(path) as orchestrator:
            busy = orchestrator.submit(inputs(FOR_EVER))
            waits = orchestrator.submit(inputs())
            wait_running(orchestrator)
        for future in (busy, waits):
            with pytest.raises(Closed, match="closed before the request was answered"):
                future.result()
        with (
            Orchestrator(path) as orchestrator,
            paused(orchestrator, 1),
        ):  # takes neither a request nor TERM
            orchestrator.submit(inputs())
        with pytest.raises(Closed, match="is closed"):
            orchestrator.predict(inputs())


def test_an_orchestrator_that_is_forgotten_or_closed_in_a_callback_leaves_nothing(
    tmp_path: Path,
) -> None:
    path, before = moody(tmp_path), set(psutil.Process().children())
    with nothing_left():
        Orchestrator(path).predict(inputs())
    with nothing_left():
        orchestrator = Orchestrator(path)
        with paused(orchestrator, 0):
            orchestrator.submit(inputs()).add_done_callback(lambda _: orchestrator.close())
        wait_until(lambda: set(psutil.Process().children()) <= before, "the rank to end")


def test_a_running_orchestrator_has_no_names_and_no_ports(tmp_path: Path) -> None:
    before = segments()
    with Orchestrator(moody(tmp_path, 2)) as orchestrator:
        orchestrator.predict(inputs(size=1 << 20))
        assert segments() <= before
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            assert not process.net_connections("inet")


@contextmanager
def garbage_uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
def test_replaced_ranks_leave_nothing(tmp_path: Path) -> None:
    given = inputs()
    with Orchestrator(moody(tmp_path)) as orchestrator:
        orchestrator.predict(given)

        def replace_once() -> None:
            before = orchestrator.status().ranks[0].restarts
            strike(orchestrator, 0)
            wait_until(
                lambda: orchestrator.status().ranks[0].restarts > before, "the death to be seen"
            )
            np.testing.assert_array_equal(orchestrator.predict(given)["y"], expected(given, 1))

        replace_once()
        with nothing_left(), garbage_uncollected():
            before = holdings(collected=False)["maps"]
            for _ in range(3):
                replace_once()
            wait_until(
                lambda: holdings(collected=False)["maps"] == before,
                "the memory of past orders to be free",
            )


def test_requests_leave_no_memory_in_the_arena(tmp_path: Path) -> None:
    with Orchestrator(moody(tmp_path)) as orchestrator:
        arena = orchestrator._fleet.parts.arena
        before = arena.used
        futures: list[Future[Any]] = []
        with paused(orchestrator, 0):
            futures += [orchestrator.submit(inputs(size=100_000)) for _ in range(5)]
            futures += [orchestrator.submit(inputs(size=100_000), timeout=0.01) for _ in range(5)]
            for future in futures[:3]:
                future.cancel()
            strike(orchestrator, 0)
        for future in futures[3:5]:
            future.result()
        assert arena.used > before
        futures.clear()
        del future
        wait_until(lambda: arena.used <= before, "all memory of requests to be free")


PROGRAM = """
import os, signal, sys
import rankmesh
orchestrator = rankmesh.Orchestrator(sys.argv[1])
forked = os.fork()
if not forked:  # outlives its parent, with copies of all its descriptors
    signal.pause()
print(forked, *[one.pid for one in orchestrator.status().ranks], flush=True)
signal.pause()
"""
HELPER = """
import os, subprocess, sys
if sys.orig_argv[-1].startswith("rank="):
    subprocess.Popen(["sleep", "60"])
"""


def test_a_killed_program_leaves_no_rank_and_nothing_that_ranks_have_started(
    tmp_path: Path,
) -> None:
    """Though a process that it forked lives on."""
    before = segments()
    (tmp_path / "sitecustomize.py").write_text(HELPER)
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, moody(tmp_path, 2)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
    )
    try:
        assert program.stdout is not None
        forked, *ranks = map(int, program.stdout.readline().split())
        family = psutil.Process(program.pid).children(recursive=True)
        assert len(ranks) == 2 and sum(one.name() == "sleep" for one in family) == 2
    finally:
        program.kill()
        program.wait()
    others = [one for one in family if one.pid != forked]
    wait_until(lambda: not any(lives(one) for one in others), f"{others} to end")
    assert lives(psutil.Process(forked))
    os.kill(forked, signal.SIGKILL)
    program.communicate()
    assert segments() <= before


def lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
