"""Ray placement: how many ranks of a replica each bundle has."""

from __future__ import annotations

import pytest

from rankmesh.orchestrator.ray_agents.rank_needs import RankNeeds
from rankmesh.orchestrator.ray_agents.ray_cluster import ClusterHost
from rankmesh.orchestrator.ray_agents.ray_placement import ranks_by_bundle

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("ranks", "needs", "cores", "expected"),
    [
        (4, RankNeeds(1, 0), (2, 4), [4]),
        (4, RankNeeds(2, 0), (4, 4), [2, 2]),
        (5, RankNeeds(1, 0), (2, 4, 3), [3, 2]),
        (9, RankNeeds(1, 0), (4, 4), [9]),  # Ray tells that there is no room
        (1, RankNeeds(1, 1), (8,), [1]),  # or an autoscaler brings a GPU
    ],
)
def test_ranks_share_as_few_hosts_as_can_hold_them(
    ranks: int, needs: RankNeeds, cores: tuple[int, ...], expected: list[int]
) -> None:
    hosts = [ClusterHost(f"10.0.0.{at}", {"CPU": float(one)}) for at, one in enumerate(cores)]
    assert ranks_by_bundle(ranks, needs, hosts, lambda address: True) == expected


def test_a_replica_does_not_span_hosts_of_other_networks() -> None:
    hosts = [ClusterHost(f"10.0.0.{at}", {"CPU": 2.0, "GPU": 2.0}) for at in range(2)]
    assert ranks_by_bundle(4, RankNeeds(1, 1), hosts, lambda address: address == "10.0.0.0") == [4]
