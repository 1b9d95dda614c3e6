"""Requests of an asyncio loop that takes its answers itself: none is lost, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_models import doubler, grower

import rankmesh
from rankmesh.orchestrator.scheduling.loop_caller import MODELS_OWN, LoopCaller

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.zeros(1, np.float32)


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rankmesh.Orchestrator]:
    folder = tmp_path_factory.mktemp("models")
    settings = folder / "serve.yaml"
    settings.write_text(f"""
models:
  - path: {doubler(folder)}
    replicas: 2
    batching: {{max_batch: 8}}
  - path: {grower(folder)}
""")
    with rankmesh.Orchestrator(config=str(settings)) as made:
        yield made


def in_loop(
    orchestrator: rankmesh.Orchestrator, ask: Callable[[LoopCaller], Awaitable[None]]
) -> None:
    async def run() -> None:
        caller = orchestrator.loop_caller(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(ask(caller), PATIENCE)
        finally:
            caller.close()

    asyncio.run(run())


async def doubled(caller: LoopCaller, n: int, timeout: float | None = MODELS_OWN) -> None:
    found: Any = await caller.call("doubler", {"x": X * n, "bias": BIAS}, timeout, 0)
    np.testing.assert_array_equal(found["y"], 2 * n * X)


def test_many_at_once_in_batches_and_beside_threads(orchestrator: rankmesh.Orchestrator) -> None:
    def predict() -> None:
        for n in range(100):
            y = orchestrator.predict({"x": X * n, "bias": BIAS}, model="doubler")["y"]
            np.testing.assert_array_equal(y, 2 * n * X)

    async def ask(caller: LoopCaller) -> None:
        for _ in range(5):
            await asyncio.gather(*(doubled(caller, n) for n in range(60)))

    with ThreadPoolExecutor() as threads:
        beside = [threads.submit(predict) for _ in range(2)]
        in_loop(orchestrator, ask)
    for one in beside:
        one.result()


def test_outputs_that_need_more_memory_and_errors_of_ranks(
    orchestrator: rankmesh.Orchestrator,
) -> None:
    async def ask(caller: LoopCaller) -> None:
        for n in (3, 500_000, 7):
            found: Any = await caller.call("grower", [np.array([n])], MODELS_OWN, 0)
            assert found["y"].shape == (n,) and found["y"].all()
        with pytest.raises(rankmesh.RankmeshError):
            await caller.call("grower", [np.array([-5])], MODELS_OWN, 0)
        with pytest.raises(rankmesh.InputError):
            await caller.call("grower", [X], MODELS_OWN, 0)
        found = await caller.call("grower", [np.array([2])], MODELS_OWN, 0)
        assert found["y"].shape == (2,)

    in_loop(orchestrator, ask)


def test_cancelled_and_late_requests_hold_up_no_other(orchestrator: rankmesh.Orchestrator) -> None:
    (rank,) = [one for one in orchestrator.status().ranks if one.model == "grower"]
    assert rank.pid is not None
    pid = rank.pid
    given = [np.array([4])]

    async def ask(caller: LoopCaller) -> None:
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(caller.call("grower", given, MODELS_OWN, 0), 0.1)
            with pytest.raises(rankmesh.DeadlineExceeded):
                await caller.call("grower", given, 0.1, 0)
            left = asyncio.create_task(caller.call("grower", given, MODELS_OWN, 0))
            await asyncio.sleep(0.1)
        finally:
            os.kill(pid, signal.SIGCONT)
        found: Any = await left
        assert found["y"].shape == (4,)
        os.kill(pid, signal.SIGSTOP)
        last = asyncio.create_task(caller.call("grower", given, MODELS_OWN, 0))
        await asyncio.sleep(0.1)
        last.cancel()  # the loop ends while a rank has the request

    try:
        in_loop(orchestrator, ask)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert orchestrator.predict(given[0], model="grower", timeout=PATIENCE)["y"].shape == (4,)


def test_requests_of_a_rank_that_is_killed_are_answered(
    orchestrator: rankmesh.Orchestrator,
) -> None:
    async def ask(caller: LoopCaller) -> None:
        for _ in range(3):
            asked = [asyncio.create_task(doubled(caller, n)) for n in range(40)]
            await asyncio.sleep(0)
            for rank in orchestrator.status().ranks:
                if rank.model == "doubler" and rank.replica == 0 and rank.pid is not None:
                    os.kill(rank.pid, signal.SIGKILL)
            await asyncio.gather(*asked)

    in_loop(orchestrator, ask)
    wait_until(lambda: orchestrator.status().state == "ready", "the replica to be back")


def test_without_a_free_slot_requests_are_answered_as_well(
    orchestrator: rankmesh.Orchestrator,
) -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        callers = [orchestrator.loop_caller(loop) for _ in range(70)]
        try:
            await asyncio.gather(*(doubled(caller, 3) for caller in callers))
        finally:
            for caller in callers:
                caller.close()

    asyncio.run(ask())


def test_a_caller_of_a_closed_orchestrator_is_told(tmp_path: Path) -> None:
    async def ask() -> None:
        orchestrator = rankmesh.Orchestrator(doubler(tmp_path))
        caller = orchestrator.loop_caller(asyncio.get_running_loop())
        await doubled(caller, 2)
        await asyncio.to_thread(orchestrator.close)
        with pytest.raises(rankmesh.Closed):
            await doubled(caller, 2)
        caller.close()

    asyncio.run(ask())
