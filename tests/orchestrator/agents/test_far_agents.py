"""An agent on another host, which is a network namespace: encrypted answers, a cut, a return."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
from agents import Agents
from host_beside import HostBeside
from hosts import why_not
from moody import expected, inputs, moody, wait_ready, wait_running
from processes import PATIENCE, wait_until

from rankmesh import Orchestrator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

LATE = 20.0
"""Seconds after which a cut is named at the latest; most of it is for a busy machine."""


@pytest.fixture(scope="module")
def served(far: HostBeside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Two replicas: one on this host, one on the other."""
    with Agents(tmp_path_factory.mktemp("agents"), far.here) as agents:
        agents.start("near", 1)
        agents.start("far", 1, "--host-timeout", 2, before=far.command([]))
        pattern = moody(tmp_path_factory.mktemp("moody"))
        with Orchestrator(pattern, replicas=2, **agents.settings) as orchestrator:  # type: ignore[arg-type]
            yield orchestrator


def hosts_of(served: Orchestrator) -> set[str]:
    return {one.host for one in served.status().ranks}


def test_both_hosts_answer_small_and_large_requests(served: Orchestrator) -> None:
    assert "far" in hosts_of(served) and len(hosts_of(served)) == 2
    for size in (4, 1000, 4_000_000):
        given = [inputs(size=size, start=start) for start in range(6)]
        futures = [served.submit(one) for one in given]
        for one, future in zip(given, futures, strict=True):
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], expected(one, 1))


def test_a_slow_network_that_loses_packets_loses_neither_request_nor_host(
    served: Orchestrator, far: HostBeside
) -> None:
    given = inputs(size=250_000)
    with far.slowed("20mbit"):
        futures = [served.submit(given) for _ in range(4)]
        for one in futures:
            np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 1))
    assert not [one for one in served.status().ranks if one.last_error]


def test_a_rank_that_dies_there_is_named_and_loses_no_request(served: Orchestrator) -> None:
    given = inputs(rounds=100_000)
    futures = [served.submit(given) for _ in range(6)]
    wait_running(served)
    (victim,) = [one.pid for one in served.status().ranks if one.host == "far"]
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 1))
    wait_ready(served)
    (died,) = [one.last_error for one in served.status().ranks if one.last_error]
    assert f"(pid {victim}" in died and "SIGKILL" in died


def test_a_cut_loses_no_request_and_the_host_is_used_again_afterwards(
    served: Orchestrator, far: HostBeside
) -> None:
    given = inputs(rounds=100_000)
    futures = [served.submit(given) for _ in range(8)]
    wait_running(served)
    far.set_cable("down")
    began = time.monotonic()
    wait_until(lambda: served.status().state == "restarting", "the cut to be noticed")
    assert time.monotonic() - began < LATE
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 1))
    (lost,) = [one for one in served.status().ranks if one.last_error]
    assert (
        "agent far (process" in lost.last_error
        and "or the network to it is down" in lost.last_error
    )
    far.set_cable("up")
    wait_ready(served)
    test_both_hosts_answer_small_and_large_requests(served)
    (counts,) = served.metrics().values()
    assert counts["accepted"] == counts["answered"]
