from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meetings import together

from rankmesh.worker.session.hardware import CoreSet, agree_on_cores, core_share

pytestmark = pytest.mark.pure


@given(st.integers(1, 6), st.sets(st.integers(0, 31), min_size=1))
def test_shared_cores_are_dealt_out_evenly_and_none_twice(ranks: int, cores: set[int]) -> None:
    seats = [CoreSet("here", tuple(sorted(cores)))] * ranks
    shares = [core_share(seats, rank) for rank in range(ranks)]
    dealt = [core for one in shares for core in one]
    assert len(set(dealt)) == len(dealt) and set(dealt) <= cores
    assert {len(one) for one in shares} == {len(cores) // ranks}


def test_ranks_that_were_pinned_apart_keep_their_cores() -> None:
    seats = [CoreSet("here", (0, 1)), CoreSet("here", (2, 3, 4))]
    assert [core_share(seats, rank) for rank in (0, 1)] == [(0, 1), (2, 3, 4)]


def test_only_ranks_of_one_host_share() -> None:
    seats = [CoreSet(host, (0, 1)) for host in ("a", "b", "a", "b")]
    assert [core_share(seats, rank) for rank in range(4)] == [(0,), (0,), (1,), (1,)]


def test_more_ranks_than_cores_are_not_pinned() -> None:
    assert [core_share([CoreSet("here", (0, 1))] * 3, rank) for rank in range(3)] == [()] * 3


def test_lone_rank_has_all() -> None:
    assert core_share([CoreSet("here", (1, 5))], 0) == (1, 5)


def test_ranks_agree() -> None:
    shares = together(2, agree_on_cores)
    assert set(shares[0]).isdisjoint(shares[1])
