"""An agent on a host away, whose packets take long: answers, requests under way together, and when
the host is taken for lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from agents import Agents
from host_away import HostAway, why_not
from moody import expected, inputs, moody, wait_ready, wait_running
from processes import PATIENCE, wait_until

from rankmesh import Orchestrator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

DELAY = 0.05
"""Seconds each way."""

SILENCE = 2.0
HANG = 2.0
"""Seconds without progress after which a rank counts as hanging."""


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAway]:
    with HostAway(tmp_path_factory.mktemp("away")) as host:
        host.carry(DELAY)
        yield host


@pytest.fixture(scope="module")
def served(away: HostAway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """One rank, on the host away."""
    with Agents(tmp_path_factory.mktemp("agents"), away.here) as agents:
        agents.start("away", 1, "--host-timeout", SILENCE, before=away.command([]))
        pattern = moody(tmp_path_factory.mktemp("moody"))
        settings = {**agents.settings, "host_timeout": SILENCE, "hang_timeout": HANG}
        with Orchestrator(pattern, **settings) as orchestrator:  # type: ignore[arg-type]
            yield orchestrator


def check_answers(served: Orchestrator, count: int, size: int) -> None:
    """So many requests side by side are answered rightly."""
    given = [inputs(size=size, start=start) for start in range(count)]
    futures = [served.submit(one) for one in given]
    for one, future in zip(given, futures, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE)["y"], expected(one, 1))


def test_small_and_large_requests_are_answered_and_no_host_is_lost(served: Orchestrator) -> None:
    for size in (0, 4, 1_000_000):
        check_answers(served, 3, size)
    began = time.monotonic()
    served.predict(inputs())
    assert time.monotonic() - began >= 2 * DELAY
    assert [one.last_error for one in served.status().ranks] == [""]


def test_requests_are_under_way_together(served: Orchestrator) -> None:
    """One after another they would take a round trip each; eight orders are given ahead."""
    check_answers(served, 3, 4)  # so that the orchestrator knows how long they take
    count, began = 60, time.monotonic()
    check_answers(served, count, 4)
    assert time.monotonic() - began < count * 2 * DELAY * 0.8  # one after the other: 1


def test_a_transfer_that_takes_longer_than_a_rank_may_hang_is_none(
    served: Orchestrator, away: HostAway
) -> None:
    given = inputs(size=250_000)  # 1 MB: 2.5 s there, and 2.5 s back
    with away.slowed("3200kbit"):
        began = time.monotonic()
        np.testing.assert_array_equal(served.predict(given)["y"], expected(given, 1))
        assert time.monotonic() - began > 2 * HANG
    assert [one.last_error for one in served.status().ranks] == [""]


def test_a_delay_beyond_its_patience_is_a_lost_host_that_comes_back(
    served: Orchestrator, away: HostAway
) -> None:
    given = inputs(rounds=100_000)
    futures = [served.submit(given) for _ in range(2)]
    wait_running(served)
    away.carry(2 * SILENCE)
    wait_until(lambda: served.status().state == "restarting", "the host to be lost")
    (lost,) = served.status().ranks
    assert "agent away (process" in lost.last_error
    away.carry(DELAY)
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 1))
    wait_ready(served)
    (counts,) = served.metrics().values()
    assert counts["accepted"] == counts["answered"]
