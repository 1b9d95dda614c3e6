"""Ray placement: how many ranks of a replica each bundle has."""

from __future__ import annotations

import pytest

from rankmesh.orchestrator.ray_agents.rank_needs import RankNeeds
from rankmesh.orchestrator.ray_agents.ray_cluster import ClusterHost
from rankmesh.orchestrator.ray_agents.ray_placement import placements

pytestmark = pytest.mark.pure
ONE, FEW = RankNeeds(1, 0), RankNeeds(2, 0)


def hosts(cores: tuple[int, ...], free: tuple[int, ...]) -> list[ClusterHost]:
    return [
        ClusterHost(f"10.0.0.{at}", {"CPU": float(all_)}, {"CPU": float(one)} if one else {})
        for at, (all_, one) in enumerate(zip(cores, free, strict=True))
    ]


@pytest.mark.parametrize(
    ("ranks", "needs", "cores", "free", "expected"),
    [
        (4, ONE, (2, 4), (2, 4), [[4]]),
        (4, FEW, (4, 4), (4, 4), [[2, 2]]),
        (5, ONE, (2, 4, 3), (2, 4, 3), [[3, 2]]),
        (4, ONE, (4, 4), (3, 2), [[4], [2, 2]]),  # one host may be free in a moment
        (4, ONE, (4, 4, 8), (3, 2, 4), [[4]]),
        (4, ONE, (4, 4), (1, 0), [[4]]),  # waits for a host
        (6, ONE, (4, 4), (1, 0), [[3, 3]]),  # waits for both
        (9, ONE, (4, 4), (4, 4), [[9]]),  # Ray tells that there is no room
        (1, RankNeeds(1, 1), (8,), (8,), [[1]]),  # or an autoscaler brings a GPU
    ],
)
def test_ranks_share_as_few_hosts_as_have_room_for_them(
    ranks: int,
    needs: RankNeeds,
    cores: tuple[int, ...],
    free: tuple[int, ...],
    expected: list[list[int]],
) -> None:
    found = placements(ranks, needs, hosts(cores, free), lambda address: True)
    assert [shares for shares, _ in found] == expected


def test_a_replica_does_not_span_hosts_of_other_networks() -> None:
    for cores in ((2, 2), (4, 4)):
        found = placements(4, ONE, hosts(cores, (2, 2)), lambda address: address == "10.0.0.0")
        assert [shares for shares, _ in found] == [[4]]
