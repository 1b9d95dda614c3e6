"""Requests that cannot be answered, by the rank's own word: a typed error for their callers, and
nobody restarts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from moody import paused, strike, wait_running
from onnx import save
from onnx_models import collective, model, node
from processes import PATIENCE, wait_until
from served_models import grower

from rankmesh import Orchestrator, OutOfMemory, RankDied, RankFailed, UsageError


def test_a_request_for_which_there_is_no_memory(tmp_path: Path) -> None:
    with Orchestrator(grower(tmp_path)) as orchestrator:
        for size in (1 << 40, 1 << 50):  # more than any machine has, or can address
            with pytest.raises(OutOfMemory):
                orchestrator.predict(np.array([size]))
        assert orchestrator.predict(np.array([3]))["y"].tolist() == [1, 1, 1]
        assert orchestrator.status().ranks[0].restarts == 0


def test_outputs_for_which_the_shared_memory_has_no_room(tmp_path: Path) -> None:
    with Orchestrator(grower(tmp_path)) as orchestrator:
        orchestrator._fleet.parts.arena._largest = 64 << 20
        with pytest.raises(OutOfMemory, match="no room for outputs of 400000000 bytes"):
            orchestrator.predict(np.array([100_000_000]))
        assert orchestrator.predict(np.array([3]))["y"].tolist() == [1, 1, 1]


def adders(folder: Path) -> str:
    """y = the two ranks' x + w, summed; x and w may have any size, but one that fits the
    other's."""
    for rank in range(2):
        nodes = [node("Add", "x w", "d"), collective("AllReduce", "d", "y", group="world")]
        save(model(nodes, {"x": ["n"], "w": ["m"]}, {"y": ["k"]}), folder / f"adder{rank}.onnx")
    return str(folder / "adder{rank}.onnx")


def test_ranks_that_all_fail_before_they_meet_stay_in_step(tmp_path: Path) -> None:
    ones = np.ones(4, np.float32)
    with Orchestrator(adders(tmp_path)) as orchestrator:
        futures = [orchestrator.submit(ones, ones[:size]) for size in (4, 3, 4, 2, 1)]
        for future, fails in zip(futures, (False, True, False, True, False), strict=True):
            if fails:
                with pytest.raises(RankFailed, match="Add"):
                    future.result(PATIENCE)
            else:
                assert future.result(PATIENCE)["y"].tolist() == [4, 4, 4, 4]
        assert orchestrator.status().ranks[0].restarts == 0


def counter(folder: Path) -> str:
    """y = how often it ran, plus x."""
    nodes = [
        node("Add", "count one", "next"),
        collective("Assign", "next", "", state="count"),
        node("Add", "next x", "y"),
    ]
    constants = {"count": np.zeros(1, np.float32), "one": np.ones(1, np.float32)}
    save(model(nodes, {"x": [1]}, {"y": [1]}, constants=constants), folder / "counter.onnx")
    return str(folder / "counter.onnx")


def test_what_a_stateful_model_ran_when_its_rank_died_is_not_run_again(tmp_path: Path) -> None:
    """What earlier requests left is lost with the rank: run again, the request might get a wrong
    answer.
    """
    zero = np.zeros(1, np.float32)
    with Orchestrator(counter(tmp_path), warm_up=False) as orchestrator:
        assert [orchestrator.predict(zero)["y"].item() for _ in range(3)] == [1, 2, 3]
        with paused(orchestrator, 0):
            runs, waits = orchestrator.submit(zero), orchestrator.submit(zero)
            wait_running(orchestrator)
            strike(orchestrator, 0)
        with pytest.raises(RankDied, match="rank 0 of 1 .* was killed by SIGKILL"):
            runs.result(PATIENCE)
        assert waits.result(PATIENCE)["y"].item() == 1


def test_a_callback_may_submit_but_not_wait(tmp_path: Path) -> None:
    found: list[object] = []

    def go_on(_: object) -> None:
        try:
            orchestrator.predict(np.array([1]))
        except UsageError as error:
            found.append(error)
        found.append(orchestrator.submit(np.array([2])))

    with Orchestrator(grower(tmp_path)) as orchestrator:
        with paused(orchestrator, 0):
            orchestrator.submit(np.array([1])).add_done_callback(go_on)
        wait_until(lambda: len(found) == 2, "the callback")
        assert "may not be called from a callback of a future" in str(found[0])
        assert found[1].result(PATIENCE)["y"].tolist() == [1, 1]  # type: ignore[attr-defined]
