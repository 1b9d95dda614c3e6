"""Replicas on simulated hosts that fail; bench/scale.py has thousands of ranks there."""

from __future__ import annotations

import pytest
from simulation.chance import ClusterSettings
from simulation.deployment import deployed
from simulation.load import Load, Outcomes

pytestmark = pytest.mark.pure

FRAIL = ClusterSettings(
    10, service=0.5, start=1.0, rank_life=60.0, host_life=40.0, repair=5.0, notice=1.0
)
"""Room for 30 replicas of 2 ranks; a rank fails each second, and a host each 4 seconds."""


def outcomes_of(seed: int, requests: int) -> tuple[Outcomes, int, int]:
    """What became of the requests, how many ran again, and how many hosts were lost."""
    with deployed(30, 2, FRAIL, seed) as deployment:
        outcomes = Load(deployment, rate=40.0).run(requests, within=600.0)
        deployment.loop.turn_until(deployment.settled, latest=1000.0)
        counts = deployment.dispatcher.counters.snapshot()
        return outcomes, counts["replayed"], deployment.cluster.losses


@pytest.mark.parametrize("seed", range(2))
def test_each_request_has_one_outcome_while_ranks_and_hosts_fail(seed: int) -> None:
    outcomes, replayed, losses = outcomes_of(seed, 300)
    assert outcomes.right, outcomes
    assert replayed > 0
    assert losses > 0
    assert outcomes.answered + outcomes.errors["Poisoned"] == 300  # ranks failed twice on it


def test_replicas_of_more_ranks_than_a_host_takes_outlive_ranks_and_hosts() -> None:
    frail = ClusterSettings(
        9, service=0.5, start=1.0, rank_life=200.0, host_life=200.0, repair=5.0, notice=1.0
    )
    with deployed(3, 18, frail, seed=3) as deployment:
        outcomes = Load(deployment, rate=4.0).run(100, within=600.0)
        deployment.loop.turn_until(deployment.settled, latest=1000.0)
        assert outcomes.right, outcomes
        assert deployment.cluster.losses > 0
        hosts = [{spec.rank.host for spec in one.incarnation.specs} for one in deployment.replicas]
        assert [len(one) for one in hosts] == [3, 3, 3]


def test_requests_run_again_whose_collectives_fail_while_all_ranks_live() -> None:
    with deployed(1, 12, ClusterSettings(2, service=0.5, start=1.0), seed=4) as deployment:
        (one, other) = deployment.cluster.agents

        def cut() -> None:
            for agent in (one, other):
                for incarnation in agent.incarnations.values():
                    incarnation.break_network()

        deployment.loop.simulate(2.0, cut)
        outcomes = Load(deployment, rate=4.0).run(20, within=600.0)
        assert outcomes.right and outcomes.answered == 20, outcomes
        assert deployment.replicas[0].starts == 2
        assert "gloo failed" in deployment.replicas[0].outages[0].error


def test_a_seed_gives_the_same_failures_and_answers_again() -> None:
    first, second = outcomes_of(5, 100), outcomes_of(5, 100)
    assert first[0].seconds == second[0].seconds
    assert first[1:] == second[1:]


def test_a_replica_without_requests_outlives_any_number_of_hosts() -> None:
    calm = ClusterSettings(4, start=1.0, repair=5.0, notice=1.0)
    with deployed(2, 8, calm, seed=1) as deployment:
        for _ in range(16):  # more often than a replica restarts for failures of its own
            deployment.cluster.lose_hosts(2)
            lost = deployment.clock.now + calm.notice
            deployment.loop.turn_until(lambda lost=lost: deployment.clock.now > lost, latest=1000.0)
            deployment.loop.turn_until(deployment.settled, latest=1000.0)
        assert min(replica.starts for replica in deployment.replicas) > 6
        assert Load(deployment, rate=10.0).run(10, within=60.0).right
