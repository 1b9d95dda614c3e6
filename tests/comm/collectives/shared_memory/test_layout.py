"""Regions of groups and mailboxes never overlap, whatever the lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.collectives.shared_memory.layout import CHUNK_BYTES, SLOT_BYTES, lay_out
from rankmesh.comm.job_memory.arena import LINE, PAGE, header_bytes

pytestmark = pytest.mark.pure

MEMBERS = st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True).map(tuple)
PAIRS = st.tuples(st.integers(0, 7), st.integers(0, 7))


def intervals(layout):
    for region in layout.groups.values():
        for p in range(len(region.members)):
            yield region.line(p), region.line(p) + LINE
            for parity in (0, 1):
                yield region.slot(p, parity), region.slot(p, parity) + SLOT_BYTES
    for region in layout.pairs.values():
        yield region.head, region.head + LINE
        yield region.tail, region.tail + LINE
        for parity in (0, 1):
            yield region.chunk(parity), region.chunk(parity) + CHUNK_BYTES


@given(groups=st.lists(MEMBERS, max_size=6), pairs=st.lists(PAIRS, max_size=10))
def test_regions_lie_apart_behind_the_header_and_inside_the_file(groups, pairs):
    layout = lay_out(header_bytes(8), groups, pairs)
    assert set(layout.groups) == set(groups)
    assert set(layout.pairs) == set(pairs)
    end = header_bytes(8)
    for start, stop in sorted(intervals(layout)):
        assert end <= start
        end = stop
    assert end <= layout.size


@given(
    groups=st.lists(MEMBERS, max_size=6), pairs=st.lists(PAIRS, max_size=10), random=st.randoms()
)
def test_order_and_repetition_of_the_lists_do_not_matter(groups, pairs, random):
    again, pairs_again = groups * 2, pairs * 2
    random.shuffle(again)
    random.shuffle(pairs_again)
    assert lay_out(header_bytes(8), groups, pairs) == lay_out(header_bytes(8), again, pairs_again)


def test_slots_and_chunks_begin_at_pages():
    layout = lay_out(header_bytes(3), [(0, 1, 2), (2, 0)], [(0, 1)])
    starts = [
        r.slot(p, q) for r in layout.groups.values() for p in range(len(r.members)) for q in (0, 1)
    ]
    starts += [r.chunk(q) for r in layout.pairs.values() for q in (0, 1)]
    assert all(start % PAGE == 0 for start in starts)
