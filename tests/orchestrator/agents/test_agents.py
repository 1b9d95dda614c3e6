"""An orchestrator whose ranks agents start: answers, deaths of ranks and of agents, and the end."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from agents import Agents
from leftovers import descriptors
from moody import expected, inputs, moody, wait_ready, wait_running
from processes import PATIENCE, wait_until

from rankmesh import Orchestrator, UsageError


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """Two agents, each with room for the two ranks of a replica."""
    with Agents(tmp_path_factory.mktemp("agents")) as agents:
        agents.start("a", 2)
        agents.start("b", 2)
        yield agents


@pytest.fixture(scope="module")
def served(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Two replicas of two ranks, each on another agent."""
    pattern = moody(tmp_path_factory.mktemp("moody"), 2)
    with Orchestrator(pattern, replicas=2, **agents.settings) as orchestrator:  # type: ignore[arg-type]
        yield orchestrator


def check_answers(served: Orchestrator) -> None:
    """Requests of several sizes, side by side, are answered rightly."""
    given = [inputs(size=size, start=start) for size in (4, 5000, 700_000) for start in (0, 7)]
    futures = [served.submit(one) for one in given]
    for one, future in zip(given, futures, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE)["y"], expected(one, 2))


def arenas(pid: int) -> set[str]:
    """The arenas of tensors that a process has mapped, by the numbers of their files."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "/memfd:rankmesh-tensors" in line}


def rings(pid: int) -> int:
    """How many rings of orders a process has open."""
    return descriptors(pid)["/memfd:rankmesh-ring (deleted)"]


def test_replicas_on_two_agents_answer(served: Orchestrator, agents: Agents) -> None:
    check_answers(served)
    pids = {one.pid for name in "ab" for one in agents.ranks(name)}
    assert {one.pid for one in served.status().ranks} == pids and len(pids) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what these processes have mapped")
def test_ranks_of_agents_on_this_host_have_the_arena_of_the_orchestrator(
    served: Orchestrator,
) -> None:
    own = arenas(os.getpid())
    assert all(arenas(one.pid) & own for one in served.status().ranks)


def test_a_rank_that_dies_is_named_and_started_again_where_it_was(
    served: Orchestrator, agents: Agents
) -> None:
    given = inputs(rounds=400_000)
    before = {one.pid for one in agents.ranks("b")}
    future = served.submit(given)
    others = [served.submit(given) for _ in range(3)]
    wait_running(served)
    victim = agents.ranks("b")[0]
    victim.kill()
    for one in (future, *others):
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 2))
    wait_ready(served)
    errors = [one.last_error for one in served.status().ranks if one.last_error]
    assert any(f"(pid {victim.pid}" in one and "SIGKILL" in one for one in errors), errors
    assert before.isdisjoint(one.pid for one in agents.ranks("b"))
    check_answers(served)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what these processes have open")
def test_ranks_that_start_again_leave_no_memory(served: Orchestrator, agents: Agents) -> None:
    """Without the garbage collector, which may come late."""
    pids = [os.getpid(), agents.started["a"].pid, agents.started["b"].pid]
    before = [rings(pid) for pid in pids]
    gc.disable()
    try:
        for one in (agents.ranks("a")[0], agents.ranks("b")[0]):
            one.kill()
        wait_until(lambda: served.status().state != "ready", "the deaths to be noticed")
        wait_ready(served)
        wait_until(lambda: [rings(pid) for pid in pids] == before, "earlier rings to be free")
    finally:
        gc.enable()


def test_an_agent_that_is_killed_is_named_and_its_replica_waits_for_another(
    served: Orchestrator, agents: Agents
) -> None:
    ranks = agents.ranks("a")
    given = inputs(rounds=400_000)
    futures = [served.submit(given) for _ in range(4)]
    wait_running(served)
    agents.started["a"].kill()
    for one in futures:
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], expected(given, 2))
    lost = [one for one in served.status().ranks if "agent a (process" in one.last_error]
    assert len(lost) == 2 and served.status().state == "restarting"
    psutil.wait_procs(ranks, PATIENCE)
    assert not any(one.is_running() for one in ranks)
    agents.started["a"].communicate()
    agents.start("a", 2)
    wait_ready(served)
    check_answers(served)
    assert len(agents.ranks("a")) == 2


def test_agents_end_in_order_with_the_orchestrator(served: Orchestrator, agents: Agents) -> None:
    served.close()
    assert [one.wait(PATIENCE) for one in agents.started.values()] == [0, 0]


def test_agents_that_do_not_come_are_missed(agents: Agents, tmp_path: Path) -> None:
    settings = {**agents.settings, "agents": 3, "join_timeout": 0.3}
    with pytest.raises(UsageError, match=r"3 agents were to join within 0\.3 s, and there is none"):
        Orchestrator(moody(tmp_path), **settings)  # type: ignore[arg-type]


def test_term_ends_an_agent_that_waits(agents: Agents) -> None:
    agents.start("c", 1)
    process = agents.started["c"]
    wait_until(lambda: bool(psutil.Process(process.pid).children()), "its guardian runs")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
