"""A replica whose ranks are on two hosts, which are network namespaces: two ranks on each."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
from agents import Agents
from host_beside import HostBeside
from hosts import why_not
from moody import expected, inputs, moody, wait_ready, wait_running
from processes import PATIENCE, wait_until

from rankmesh import Orchestrator

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.slow,
]

RANKS = 4
LATE = 20.0
"""Seconds after which a cut is named at the latest; most of it is for a busy machine."""


@pytest.fixture(scope="module")
def agents(far: HostBeside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """An agent on each host."""
    with Agents(tmp_path_factory.mktemp("agents"), far.here) as agents:
        agents.start("near", 2)
        agents.start("far", 2, "--host-timeout", 2, before=far.command([]))
        yield agents


@pytest.fixture(scope="module")
def served(
    agents: Agents, far: HostBeside, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Orchestrator]:
    """One tensor-parallel replica on both hosts, as a rank table says: the other one first."""
    folder = tmp_path_factory.mktemp("moody")
    servers = [{"server_id": "far", "device": []}, {"server_id": far.here, "device": []}]
    for rank in range(RANKS):
        device = {"device_id": str(rank % 2), "rank_id": str(rank)}
        servers[rank // 2]["device"].append(device)  # type: ignore[attr-defined]
    table = {"version": "1.0", "server_count": "2", "status": "completed", "server_list": servers}
    (folder / "table.json").write_text(json.dumps(table))
    settings = {
        "rank_table": str(folder / "table.json"),
        "trusted_networks": [f"{far.here.rpartition('.')[0]}.0/24"],
        **agents.settings,
    }
    with Orchestrator(moody(folder, RANKS), **settings) as orchestrator:  # type: ignore[arg-type]
        yield orchestrator


def check_answers(served: Orchestrator) -> None:
    """Requests of several sizes, side by side, are answered rightly."""
    given = [inputs(size=size, start=start) for size in (4, 5000, 700_000) for start in (0, 7)]
    futures = [served.submit(one) for one in given]
    for one, future in zip(given, futures, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE)["y"], expected(one, RANKS))


def test_ranks_on_two_hosts_answer_together(served: Orchestrator, agents: Agents) -> None:
    check_answers(served)
    pids = {one.pid for name in ("near", "far") for one in agents.ranks(name)}
    assert {one.pid for one in served.status().ranks} == pids and len(pids) == RANKS
    placed = [(one.host == "far", one.device) for one in served.status().ranks]
    assert placed == [(True, 0), (True, 1), (False, 0), (False, 1)]


def test_a_rank_that_dies_on_the_other_host_is_named_and_no_request_is_lost(
    served: Orchestrator, agents: Agents
) -> None:
    given = inputs(rounds=100_000)
    futures = [served.submit(given) for _ in range(3)]
    wait_running(served)
    victim = next(one for one in served.status().ranks if one.host == "far" and one.rank)
    near = agents.ranks("near")
    next(one for one in agents.ranks("far") if one.pid == victim.pid).kill()
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, RANKS))
    wait_ready(served)
    (outage,) = served.status().outages
    assert f"rank {victim.rank} of 4 on far (pid {victim.pid}) was killed" in outage.error
    assert not any(one.is_running() for one in near)


def test_a_cut_ends_the_ranks_of_both_hosts_and_the_replica_comes_back_with_the_host(
    served: Orchestrator, agents: Agents, far: HostBeside
) -> None:
    given = inputs(rounds=100_000)
    futures = [served.submit(given) for _ in range(3)]
    wait_running(served)
    near = agents.ranks("near")
    far.set_cable("down")
    began = time.monotonic()
    wait_until(lambda: len(served.status().outages) == 2, "the cut to be noticed")
    assert time.monotonic() - began < LATE
    psutil.wait_procs(near, PATIENCE)
    assert not any(one.is_running() for one in near)
    far.set_cable("up")
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, RANKS))
    lost = served.status().outages[1].error
    assert "agent far (process" in lost and "or the network to it is down" in lost
    check_answers(served)
    (counts,) = served.metrics().values()
    assert counts["accepted"] == counts["answered"]
