"""Rank spread: which agents get the ranks of a replica, and how many each."""

from __future__ import annotations

import pytest

from rankmesh.orchestrator.agents.rank_spread import AgentRoom, spread

pytestmark = pytest.mark.pure


def rooms(*free: int, open_: bool = True, host: str = "") -> list[AgentRoom]:
    """Agents with so many free places, by default each on a host of its own."""
    return [AgentRoom(one, host or f"10.0.0.{at}", open_) for at, one in enumerate(free)]


@pytest.mark.parametrize(
    ("size", "agents", "expected"),
    [
        (2, rooms(2, 3), [(1, 2)]),  # all on the one with most room
        (2, rooms(2, 2), [(0, 2)]),
        (4, rooms(3, 1, 3), [(0, 2), (2, 2)]),  # the fewest, in even shares
        (5, rooms(1, 4, 2), [(1, 3), (2, 2)]),
        (7, rooms(2, 4, 2), [(1, 3), (0, 2), (2, 2)]),
        (6, rooms(1, 4, 1), [(1, 4), (0, 1), (2, 1)]),
        (5, rooms(2, 2), []),
        (1, [], []),
    ],
)
def test_the_fewest_agents_get_even_shares(
    size: int, agents: list[AgentRoom], expected: list[tuple[int, int]]
) -> None:
    assert spread(size, agents) == expected


def test_hosts_that_are_not_open_share_no_replica_but_agents_of_one_host_do() -> None:
    assert spread(4, rooms(3, 3, open_=False)) == []
    assert spread(4, rooms(3, 3, open_=False, host="10.0.0.9")) == [(0, 2), (1, 2)]
    mixed = [
        *rooms(3, 3, open_=False),
        AgentRoom(1, "10.0.1.1", True),
        AgentRoom(3, "10.0.1.2", True),
    ]
    assert spread(4, mixed) == [(3, 3), (2, 1)]
