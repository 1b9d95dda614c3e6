"""Who has come is seen by all members of one host, and nobody else's business."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.arrival_table import ArrivalTable, open_arrival_tables
from rankmesh.comm.collectives.tracking import CollectiveTracker, PendingCollective, mismatch
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import PAGE, Arena
from rankmesh.comm.job_memory.progress import Progress

pytestmark = pytest.mark.pure

HERE = frozenset(range(3))
WORLD = RankGroup("world", (0, 1, 2))


@pytest.fixture
def arenas() -> Iterator[list[Arena]]:
    """One view per rank."""
    made = Arena.create(3)
    views = [Arena.attach(os.dup(made.fd), rank) for rank in range(3)]
    yield views
    for one in (*views, made):
        one.close()


def lists(
    arenas: list[Arena], members: tuple[int, ...] = (2, 0, 1), local: frozenset[int] = HERE
) -> list[ArrivalTable]:
    found = [
        open_arrival_tables(arena, rank, [members], local)[0] for rank, arena in enumerate(arenas)
    ]
    return [one for one in found if one is not None]


def test_who_has_not_come_is_absent(arenas: list[Arena]) -> None:
    mine, other, last = lists(arenas)
    mine.arrive(7)
    assert mine.absent() == [2, 1]
    last.arrive(7)
    assert mine.absent() == [1] and mine.inside() == [2]
    other.arrive(7)
    assert mine.absent() == other.absent() == last.absent() == []
    last.leave()
    assert mine.inside() == [1]
    assert mine.process(1) == os.getpid()


def test_who_came_first_is_known(arenas: list[Arena]) -> None:
    mine, other, _ = lists(arenas)
    for turn in range(3):
        other.arrive(turn)
        first = other.first_arrival()
        mine.arrive(turn)
        assert mine.first_arrival() == first


def test_members_of_other_hosts_are_strangers(arenas: list[Arena]) -> None:
    mine, other, _ = lists(arenas, local=frozenset({0, 1}))
    mine.arrive(1)
    assert mine.absent() == [1] and mine.unseen == [2]
    other.arrive(1)
    assert mine.absent() == []
    assert (
        PendingCollective("x", [mine]).missing() == []
    )  # rank 1 is inside, but who keeps it there is not known


def test_who_came_for_something_else_is_found_unless_it_is_two_turns_ahead(
    arenas: list[Arena],
) -> None:
    mine, other, _ = lists(arenas)
    mine.arrive(5)
    assert mine.differing() is None
    other.arrive(6)
    assert mine.differing() == (5, 1, 6)
    other.arrive(9)
    assert mine.differing() == (5, 1, 6)
    other.arrive(9)
    assert mine.differing() is None


def test_lists_lie_behind_each_other_and_behind_what_was_there(arenas: list[Arena]) -> None:
    arena = arenas[0]
    before = arena.end
    first, missing, last = open_arrival_tables(arena, 0, [(0, 1), (1, 2), (2, 0)], HERE)
    assert missing is None and first is not None and last is not None
    assert arena.end == before + PAGE
    first.arrive(1)
    assert last.absent() == []  # nobody has been asked for yet


def register(arenas: list[Arena], rank: int) -> tuple[CollectiveTracker, set[PendingCollective]]:
    inside: set[PendingCollective] = set()
    groups, pairs = [(0, 1, 2)], [(0, 1), (1, 2), (0, 0)]
    return CollectiveTracker(
        arenas[rank], Rank(rank, 3, rank, 3, "here", 0), groups, pairs, HERE, inside
    ), inside


def test_a_rank_is_inside_until_it_leaves(arenas: list[Arena]) -> None:
    book, inside = register(arenas, 0)
    x = np.zeros(4)
    tracked = book.track(Call(kind=Kind.ALL_REDUCE, group=WORLD, index=3, node="sum"))
    book.enter(tracked, [x], [x])
    (pending,) = inside
    assert str(pending) == "collective 3 (AllReduce of node 'sum')"
    assert pending.missing() == [1, 2] and not pending.entered(1)
    assert Progress(arenas[1], 0).read().waiting
    book.stop_waiting(tracked)
    book.leave(tracked)
    assert not inside and not Progress(arenas[1], 0).read().waiting


def test_messages_are_entered_in_the_lists_of_their_pairs(arenas: list[Arena]) -> None:
    x = np.zeros(4)
    books = [register(arenas, rank)[0] for rank in range(3)]
    sends = books[0].track(
        Call(kind=Kind.NEIGHBOR_EXCHANGE, group=WORLD, sends_to=(0, 1), receives_from=(0,))
    )
    books[0].enter(sends, [x, x], [x])
    assert sends.pending.missing() == [1]
    assert not sends.awaited  # what comes from itself is there
    receives = books[1].track(Call(kind=Kind.RECEIVE, group=WORLD, receives_from=(0,)))
    books[1].enter(receives, [], [np.zeros(5)])
    assert (receives.pending.missing(), sends.pending.missing()) == ([0], [1])  # both are inside
    found = mismatch(1, receives.pending)
    assert found is not None and found[0] == 0 and "of 40 bytes" in found[1]


def test_a_group_that_was_not_joined_has_no_page(arenas: list[Arena]) -> None:
    with pytest.raises(KeyError):
        register(arenas, 0)[0].track(Call(kind=Kind.ALL_REDUCE, group=RankGroup("two", (0, 1))))
