"""Orders that a rank has before it can begin with them, and that are taken back where another rank
is sooner free.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moody import paused, replicas, wait_running
from processes import PATIENCE, wait_until
from served_models import echo

from rankmesh import DeadlineExceeded, Orchestrator
from rankmesh.comm.serving.caller_slots import CallerSlots
from rankmesh.comm.serving.orders import OutputBuffer, OutputPart, Run, TensorRef, encode_order
from rankmesh.comm.serving.ring import Ring
from rankmesh.orchestrator.scheduling import inflight

ORDER = encode_order(Run((TensorRef(0, (4,)),), (OutputPart(0, (0,), OutputBuffer(0, 4096)),)))


def given(number: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.full(4, number, np.float32)


@pytest.fixture
def ring() -> Iterator[Ring]:
    fd, bell = Ring.create(1, 3), os.eventfd(0)
    yield Ring(fd, bell, CallerSlots(CallerSlots.create(), spare=False))
    os.close(fd)
    os.close(bell)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orchestrator]:
    """Two replicas that have answered something, and that quickly, however busy the machine is."""
    monkeypatch.setattr(inflight, "BRIEF_SECONDS", PATIENCE)
    with Orchestrator(echo(tmp_path, 4), replicas=2, hang_timeout=60.0) as orchestrator:
        with paused(orchestrator, 0):  # so that the other one gets something, too
            futures = [orchestrator.submit(given(number)) for number in range(2)]
            futures[1].result(PATIENCE)
        futures[0].result(PATIENCE)
        yield orchestrator


def test_an_order_is_recalled_before_its_rank_begins_and_not_after(ring: Ring) -> None:
    ring.give(0, ORDER)
    assert ring.recall(0)
    assert ring.take(0, 0) is None
    ring.give(1, ORDER)
    assert encode_order(ring.take(1, 0)) == ORDER
    assert not ring.recall(1)


def test_a_slot_that_is_used_again_is_not_recalled(ring: Ring) -> None:
    ring.give(0, ORDER)
    assert ring.recall(0)
    for number in range(1, 4):
        ring.give(number, ORDER)
        assert encode_order(ring.take(number, 0)) == ORDER


def test_a_rank_that_is_quick_gets_several_ahead_which_are_recalled_one_by_one(
    two: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight, "QUICK_SECONDS", PATIENCE)
    for _ in range(2):  # again, where the ring has orders that were recalled
        with paused(two, 0):
            with paused(two, 1):
                futures = [two.submit(given(number)) for number in range(2 * inflight.MOST_AHEAD)]
                wait_running(two, 2 + inflight.MOST_AHEAD)
            wait_until(partial(_all_but_one, futures), "all but one to end")
        for number, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], given(number))
    assert all(rank.restarts == 0 for rank in two.status().ranks)


def _all_but_one(futures: Sequence[Future[Any]]) -> bool:
    return sum(one.done() for one in futures) == len(futures) - 1


def test_what_waits_behind_a_rank_that_takes_long_runs_on_the_first_free_one(
    two: Orchestrator,
) -> None:
    with paused(two, 0):
        with paused(two, 1):
            futures = [two.submit(given(number)) for number in range(3)]
            wait_running(two, 3)
        for number in (1, 2):
            np.testing.assert_array_equal(futures[number].result(PATIENCE)["y"], given(number))
        assert not futures[0].done()
    np.testing.assert_array_equal(futures[0].result(PATIENCE)["y"], given(0))
    assert all(rank.restarts == 0 for rank in two.status().ranks)


def test_a_deadline_passes_while_an_order_is_only_ahead(two: Orchestrator) -> None:
    with paused(two, 0), paused(two, 1):
        futures = [two.submit(given(number)) for number in range(2)]
        late = two.submit(given(2), timeout=0.5)
        with pytest.raises(DeadlineExceeded, match="it waited for a free rank"):
            late.result(PATIENCE)
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(PATIENCE)["y"], given(number))
    np.testing.assert_array_equal(two.predict(given(3))["y"], given(3))


def test_a_request_whose_order_is_only_ahead_is_cancelled_and_never_runs(two: Orchestrator) -> None:
    with paused(two, 0), paused(two, 1):
        futures = [two.submit(given(number)) for number in range(3)]
        wait_running(two, 3)
        assert futures[2].cancel()
        assert [len(one.state.inflight) for one in replicas(two)] == [1, 1]
    for number in range(2):
        np.testing.assert_array_equal(futures[number].result(PATIENCE)["y"], given(number))
    np.testing.assert_array_equal(two.predict(given(3))["y"], given(3))
