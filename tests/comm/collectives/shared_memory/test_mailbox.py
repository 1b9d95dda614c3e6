"""Point-to-point and single-member collectives, with both ends in one process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import PATIENCE

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.shared_memory.collectives import SharedMemoryCollectives
from rankmesh.comm.collectives.shared_memory.layout import CHUNK_BYTES
from rankmesh.comm.errors import CollectiveAborted, CollectiveTimeout, RankmeshError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena, Cause

pytestmark = pytest.mark.pure

WORLD = RankGroup("world", (1, 0))  # position 0 is rank 1
SEND = Call(kind=Kind.SEND, group=WORLD, node="send", sends_to=(1,))
RECEIVE = Call(kind=Kind.RECEIVE, group=WORLD, node="receive", receives_from=(0,))


@pytest.fixture
def ends():
    """Rank 1, which sends, and rank 0, which receives; and the launcher's arena."""
    arena = Arena.create(2)
    arenas = [Arena.attach(os.dup(arena.fd), rank) for rank in (0, 1)]
    receiver, sender = (
        SharedMemoryCollectives(
            Rank(r, 2, r, 2, "testhost", r), arenas[r], [(0,)], [(1, 0), (0, 0)], 0.1
        )
        for r in (0, 1)
    )
    yield sender, receiver, arena
    for end in (sender, receiver):
        end.close()
    for each in (arena, *arenas):
        each.close()


def test_small_messages_leave_at_once_and_arrive_in_order(ends):
    sender, receiver, _ = ends
    out = np.zeros(5)
    for _ in range(3):
        for i in (1, 2):
            sender.run(SEND, [np.full(5, float(i))], [])
        for i in (1, 2):
            receiver.run(RECEIVE, [], [out])
            assert (out == i).all()


def test_two_chunks_leave_at_once_and_a_third_waits(ends):
    sender, receiver, arena = ends
    sender.run(SEND, [np.ones(2 * CHUNK_BYTES, np.uint8)], [])
    with pytest.raises(CollectiveTimeout, match="rank 0 never entered it"):
        sender.run(SEND, [np.ones(1, np.uint8)], [])
    with pytest.raises(CollectiveAborted, match="rank 0 never entered it"):
        receiver.run(RECEIVE, [], [np.ones(1, np.uint8)])
    assert arena.aborted().cause is Cause.LATE


def test_exchange_with_oneself(ends):
    _, receiver, _ = ends
    call = Call(
        kind=Kind.NEIGHBOR_EXCHANGE,
        group=RankGroup("me", (0,)),
        sends_to=(0, 0),
        receives_from=(0, 0),
    )
    inputs = [np.arange(3 * CHUNK_BYTES, dtype=np.float32), np.array(True)]
    outputs = [np.zeros_like(x) for x in inputs]
    receiver.run(call, inputs, outputs)
    for x, out in zip(inputs, outputs, strict=True):
        assert (x == out).all()


@pytest.mark.parametrize(
    "kind", [k for k in Kind if not {k} & {Kind.SEND, Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE}]
)
def test_one_member_gets_its_own(ends, kind):
    _, receiver, _ = ends
    x = np.arange(5, dtype=np.int64)
    out = np.zeros_like(x)
    receiver.run(Call(kind=kind, group=RankGroup("me", (0,))), [x], [out])
    assert (x == out).all()


def test_call_that_was_not_laid_out(ends):
    sender, receiver, _ = ends
    with pytest.raises(
        RankmeshError, match=r"rank 1 of 2 on testhost did not lay out \(1, 0\) for AllGather"
    ):
        sender.run(Call(kind=Kind.ALL_GATHER, group=WORLD, node="x"), [np.ones(1)], [np.ones(2)])
    with pytest.raises(RankmeshError, match="did not lay out 1 for Send"):
        receiver.run(Call(kind=Kind.SEND, group=WORLD, sends_to=(0,)), [np.ones(1)], [])


def test_arrays_that_are_not_contiguous_are_refused(ends):
    sender, *_ = ends
    with pytest.raises(ValueError, match="C-contiguous"):
        sender.run(SEND, [np.ones((4, 4)).T], [])


def test_nothing_runs_after_an_abort(ends):
    sender, _, arena = ends
    arena.abort(0, Cause.DIED, "rank 0 died")
    with pytest.raises(CollectiveAborted, match="rank 0 died"):
        sender.run(SEND, [np.ones(1)], [])


def both_at_once(ends, run) -> None:
    """Carry out `run(collectives, rank)` on both ranks, each in a thread of its own; the first
    error is raised.
    """
    sender, receiver, _ = ends
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(run, one, rank) for rank, one in ((1, sender), (0, receiver))]:
            future.result(PATIENCE)


@pytest.fixture
def both_ways(request):
    """Ranks 1 and 0 with mailboxes in both directions, and the launcher's arena.

    The parameter is the deadline of collectives, in seconds.
    """
    timeout = getattr(request, "param", 10)
    arena = Arena.create(2)
    arenas = [Arena.attach(os.dup(arena.fd), rank) for rank in (0, 1)]
    zero, one = (
        SharedMemoryCollectives(
            Rank(r, 2, r, 2, "testhost", r), arenas[r], [], [(1, 0), (0, 1)], timeout
        )
        for r in (0, 1)
    )
    yield one, zero, arena
    for end in (one, zero):
        end.close()
    for each in (arena, *arenas):
        each.close()


@pytest.mark.parametrize("sizes", [[1] * 5, [3 * CHUNK_BYTES, 1, 2 * CHUNK_BYTES + 1, 0]])
def test_many_messages_to_one_neighbor_in_one_exchange(both_ways, sizes):
    count = len(sizes)

    def run(collectives, rank):
        peer = WORLD.ranks.index(1 - rank)
        call = Call(
            kind=Kind.NEIGHBOR_EXCHANGE,
            group=WORLD,
            sends_to=(peer,) * count,
            receives_from=(peer,) * count,
        )
        outputs = [np.zeros(size, np.uint8) for size in sizes]
        collectives.run(
            call,
            [np.full(size, 10 * rank + i + 1, np.uint8) for i, size in enumerate(sizes)],
            outputs,
        )
        assert [set(out.tolist()) for out in outputs] == [
            {10 * (1 - rank) + i + 1} if size else set() for i, size in enumerate(sizes)
        ]

    both_at_once(both_ways, run)


@pytest.mark.parametrize("both_ways", [0.1], indirect=True)
def test_exchange_names_all_who_are_missing(both_ways):
    _, zero, arena = both_ways
    call = Call(kind=Kind.NEIGHBOR_EXCHANGE, group=WORLD, sends_to=(0,), receives_from=(0,))
    x = np.ones(3 * CHUNK_BYTES, np.uint8)
    with pytest.raises(CollectiveTimeout, match="rank 1 never entered it"):
        zero.run(call, [x], [x.copy()])
    assert arena.aborted().cause is Cause.LATE
