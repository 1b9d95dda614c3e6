"""A pipeline with requests in both of its stages: what one of them does never becomes another's answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from moody import expected, inputs, paused, pipeline, strike, wait_ready, wait_running

from rankmesh import Orchestrator, RankFailed


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    with Orchestrator(pipeline(tmp_path_factory.mktemp("pipeline")), hang_timeout=5) as orchestrator:
        yield orchestrator


def test_two_requests_are_in_the_stages_at_once_and_both_run_again_when_one_dies(staged: Orchestrator) -> None:
    wait_ready(staged)
    with paused(staged, 1):
        futures = [staged.submit(inputs(start=number)) for number in range(5)]
        wait_running(staged, 2)
        strike(staged, 1)
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], expected(inputs(start=number), 1))


def test_a_request_that_fails_in_the_first_stage_gets_no_answer_of_the_next_one(staged: Orchestrator) -> None:
    wait_ready(staged)
    with paused(staged, 1):
        fails = staged.submit(inputs(shape=(3,)))
        futures = [staged.submit(inputs(start=number)) for number in range(4)]
        wait_running(staged, 2)
    with pytest.raises(RankFailed, match=r"(?s)rank 0: .*Reshape v"):
        fails.result()
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], expected(inputs(start=number), 1))
