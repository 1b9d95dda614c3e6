"""Ranks that fail again and again: pauses between the starts, an end, and one line that says so."""

from __future__ import annotations

import logging
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from leftovers import nothing_left
from moody import expected, inputs, moody, paused, strike, wait_running
from processes import wait_until
from served_models import doubler

from rankmesh import Orchestrator, RankFailed, RestartBudgetExhausted


def test_after_the_budget_everything_is_refused_and_the_log_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = moody(tmp_path)
    caplog.set_level(logging.WARNING, "rankmesh")
    with nothing_left(), Orchestrator(path, restart_budget=2) as orchestrator:
        with paused(orchestrator, 0):
            futures = [orchestrator.submit(inputs()) for _ in range(3)]
            wait_running(orchestrator)
            os.remove(path.format(rank=0))
            strike(orchestrator, 0)
        text = r"replica 0 has failed 3 times without a completed request between.*moody0.onnx"
        for future in futures:
            with pytest.raises(RestartBudgetExhausted, match=text):
                future.result()
        with pytest.raises(RestartBudgetExhausted, match=text):
            orchestrator.predict(inputs())
        status = orchestrator.status()
        assert (status.state, status.ranks[0].restarts, status.queue_depth) == ("stopped", 2, 0)
        assert "moody0.onnx" in status.ranks[0].last_error
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("model 'moody': replica 0 restarts at once: ")
    assert said[1].startswith("model 'moody': replica 0 restarts in 0.1 s: ")
    assert sum("has stopped" in text for text in said) == 1 and len(said) == 3


def test_completed_requests_renew_the_budget(tmp_path: Path) -> None:
    given = inputs()
    with Orchestrator(moody(tmp_path), restart_budget=1) as orchestrator:
        for count in (1, 2):
            strike(orchestrator, 0)
            wait_until(
                lambda count=count: orchestrator.status().ranks[0].restarts == count,
                "the death to be seen",
            )
            np.testing.assert_array_equal(orchestrator.predict(given)["y"], expected(given, 1))


def test_a_replica_that_does_not_come_back_leaves_the_others_serving(tmp_path: Path) -> None:
    given = inputs()
    with Orchestrator(moody(tmp_path), replicas=2, restart_budget=0) as orchestrator:
        with paused(orchestrator, 0), paused(orchestrator, 1):
            futures = [orchestrator.submit(given) for _ in range(4)]
            wait_running(orchestrator, 2)
            strike(orchestrator, 0)
        for future in futures:
            np.testing.assert_array_equal(future.result()["y"], expected(given, 1))
        status = orchestrator.status()
        assert (status.state, [one.state for one in status.ranks]) == (
            "degraded",
            ["stopped", "ready"],
        )
        strike(orchestrator, 1)
        wait_until(
            lambda: orchestrator.status().ranks[1].state == "stopped",
            "the last replica to be given up",
        )
        with pytest.raises(RestartBudgetExhausted, match="replica 1 has failed 1 times"):
            orchestrator.predict(given)


def test_requests_that_fail_by_themselves_cost_no_budget(tmp_path: Path) -> None:
    with Orchestrator(moody(tmp_path, 2), restart_budget=0) as orchestrator:
        for _ in range(2):  # each puts the ranks out of step, and the group is started again
            with pytest.raises(RankFailed):
                orchestrator.predict(inputs(shape=(3,)))


def test_ranks_that_cannot_be_started_for_lack_of_descriptors_are_tried_again(
    tmp_path: Path,
) -> None:
    given = inputs()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Orchestrator(moody(tmp_path), restart_budget=1000) as orchestrator:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            strike(orchestrator, 0)
            future = orchestrator.submit(given)
            wait_until(
                lambda: "cannot be started" in orchestrator.status().ranks[0].last_error,
                "a failed start",
            )
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        np.testing.assert_array_equal(future.result()["y"], expected(given, 1))


def test_another_model_in_the_file_s_place_is_not_served(tmp_path: Path) -> None:
    path = moody(tmp_path)
    (tmp_path / "other").mkdir()
    with Orchestrator(path, restart_budget=1) as orchestrator:
        os.replace(doubler(tmp_path / "other"), path.format(rank=0))
        with paused(orchestrator, 0):
            future = orchestrator.submit(inputs())
            strike(orchestrator, 0)
        with pytest.raises(
            RestartBudgetExhausted, match="has other inputs or outputs than when the orchestrator"
        ):
            future.result()
