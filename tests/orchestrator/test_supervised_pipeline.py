"""A pipeline with requests in both of its stages: what one of them does never becomes another's
answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from moody import expected, inputs, paused, pipeline, replicas, strike, wait_ready, wait_running
from processes import wait_until

from rankmesh import Orchestrator, RankFailed
from rankmesh.comm.serving.order_state import OrderState


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    with Orchestrator(
        pipeline(tmp_path_factory.mktemp("pipeline")), hang_timeout=5
    ) as orchestrator:
        yield orchestrator


def test_two_requests_are_in_the_stages_at_once_and_both_run_again_when_one_dies(
    staged: Orchestrator,
) -> None:
    wait_ready(staged)
    with paused(staged, 1):
        futures = [staged.submit(inputs(start=number)) for number in range(5)]
        wait_running(staged, 2)
        strike(staged, 1)
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], expected(inputs(start=number), 1))


def test_a_request_that_fails_in_the_first_stage_gets_no_answer_of_the_next_one(
    staged: Orchestrator,
) -> None:
    wait_ready(staged)
    with paused(staged, 1):
        fails = staged.submit(inputs(shape=(3,)))
        futures = [staged.submit(inputs(start=number)) for number in range(4)]
        wait_running(staged, 2)
    with pytest.raises(RankFailed, match=r"(?s)rank 0: .*Reshape v"):
        fails.result()
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], expected(inputs(start=number), 1))


def test_a_request_fails_behind_one_whose_caller_takes_the_answer_itself(
    staged: Orchestrator,
) -> None:
    """What the first stage has said of the second request, while the first was still under way, is
    not lost.
    """
    wait_ready(staged)
    (replica,), answers = replicas(staged), list[Any]()
    with paused(staged, 1):
        caller = threading.Thread(target=lambda: answers.append(staged.predict(inputs(start=7))))
        caller.start()
        wait_running(staged, 1)
        fails = staged.submit(inputs(shape=(3,)))
        wait_running(staged, 2)
        ring = replica.incarnation.ring
        wait_until(
            lambda: ring.state(ring.given - 1, 0) is OrderState.ANSWERED,
            "the first stage to have failed",
        )
    with pytest.raises(RankFailed, match=r"(?s)rank 0: .*Reshape v"):
        fails.result()
    assert not any("no progress" in rank.last_error for rank in staged.status().ranks)  # no hang
    caller.join()
    np.testing.assert_array_equal(answers[0]["y"], expected(inputs(start=7), 1))
