"""Prepared rounds: whatever arrays a collective is called with, and in whatever order, a rank that
has prepared its rounds gets what one that has not gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import PATIENCE

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.shared_memory.group_slots import GroupSlots
from rankmesh.comm.collectives.shared_memory.layout import lay_out
from rankmesh.comm.collectives.shared_memory.prepared_round import PREPARED
from rankmesh.comm.collectives.shared_memory.shared_word import SharedWord
from rankmesh.comm.collectives.shared_memory.slot_collectives import SlotCollective
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena, header_bytes

pytestmark = pytest.mark.pure
MEMBERS = (0, 1)
SIZES = {
    "small": (4, 4),
    "other": (6, 6),
    "two rounds": (300_000, 300_000),
    "wrong": (4, 5),
    "odd": (3, 3),
}
"""The elements of both arrays of a rank; one of them has twice as many where the kind has it so."""


class Group:
    """Two ranks in one process, with an arena."""

    def __init__(self) -> None:
        arena = Arena.create(len(MEMBERS))
        layout = lay_out(header_bytes(len(MEMBERS)), [MEMBERS], [])
        arena.grow(layout.size)
        self.slots = []
        for rank in MEMBERS:
            word = SharedWord(arena, Rank(rank, 2, rank, 2, "host", 0), PATIENCE)
            word.call = Call(kind=Kind.ALL_GATHER, group=RankGroup("all", MEMBERS))
            self.slots.append(GroupSlots(arena, layout.groups[MEMBERS], rank, word))
        self.arena, self.pool = arena, ThreadPoolExecutor(len(MEMBERS))

    def run(
        self, calls: list[SlotCollective], arrays: list[tuple[np.ndarray, np.ndarray]]
    ) -> list[str]:
        """Have both ranks carry out a call; their errors."""
        return [*self.pool.map(_outcome, calls, arrays)]

    def close(self) -> None:
        self.pool.shutdown()
        self.arena.close()


def _outcome(call: SlotCollective, arrays: tuple[np.ndarray, np.ndarray]) -> str:
    try:
        call([arrays[0]], [arrays[1]])
    except ValueError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = Group()
    yield made
    made.close()


def arrays_of(kind: Kind, size: str) -> tuple[np.ndarray, np.ndarray]:
    first, second = SIZES[size]
    given = 2 * first if kind is Kind.REDUCE_SCATTER else first
    taken = 2 * second if kind is Kind.ALL_GATHER else second
    return np.zeros(given, np.int32), np.zeros(taken, np.int32)


def expected(kind: Kind, x: list[np.ndarray]) -> list[np.ndarray]:
    if kind is Kind.ALL_GATHER:
        return [np.concatenate(x)] * 2
    parts = [one.reshape(2, -1) for one in x]
    if kind is Kind.REDUCE_SCATTER:
        return [parts[0][rank] + parts[1][rank] for rank in MEMBERS]
    return [np.concatenate([parts[0][rank], parts[1][rank]]) for rank in MEMBERS]


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(PREPARED, key=str)),
    steps=st.lists(
        st.tuples(st.sampled_from([*SIZES, "small", "small"]), st.booleans()), max_size=12
    ),
)
def test_a_prepared_round_is_what_the_others_are(
    group: Group, kind: Kind, steps: list[tuple[str, bool]]
) -> None:
    """Rank 0 prepares what it can; rank 1 does, or begins anew with each call."""
    call = Call(kind=kind, group=RankGroup("all", MEMBERS))
    kept = [SlotCollective(call, slots) for slots in group.slots]
    arrays = {size: [arrays_of(kind, size) for _ in MEMBERS] for size in SIZES}
    for number, (size, anew) in enumerate(steps):
        calls = [kept[0], SlotCollective(call, group.slots[1]) if anew else kept[1]]
        for rank, (x, out) in enumerate(arrays[size]):
            x[...], out[...] = np.arange(x.size) + 1000 * number + rank, -1
        errors = group.run(calls, arrays[size])
        fresh = [SlotCollective(call, slots) for slots in group.slots]
        found = [out.copy() for _, out in arrays[size]]
        assert errors == group.run(fresh, arrays[size])
        for before, (_, out) in zip(found, arrays[size], strict=True):
            np.testing.assert_array_equal(before, out)
        if not any(errors) and size != "odd":
            for rank, right in enumerate(expected(kind, [x for x, _ in arrays[size]])):
                np.testing.assert_array_equal(found[rank], right)
