"""The free list: what is taken was free, begins where it is asked to, and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.request_memory.free_list import FreeList

pytestmark = pytest.mark.pure

_SIZE = 64


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(1, _SIZE),
            st.sampled_from([1, 2, 8]),
            st.integers(0, _SIZE),
        )
    )
)
def test_spans_are_the_units_that_are_not_taken(
    steps: list[tuple[bool, int, int, int]],
) -> None:
    spans, free, taken = FreeList(), set(range(_SIZE)), []
    spans.add(0, _SIZE)
    for take, size, multiple, which in steps:
        fits = [
            at
            for at in range(0, _SIZE - size + 1, multiple)
            if free.issuperset(range(at, at + size))
        ]
        if take:
            found = spans.take(size, multiple)
            assert found == (fits[0] if fits else None)
            if found is not None:
                taken.append((found, size))
                free -= {*range(found, found + size)}
        elif taken:
            back = taken.pop(which % len(taken))
            spans.add(*back)
            free |= {*range(back[0], back[0] + back[1])}
        listed = spans.spans()
        assert {unit for at, size in listed for unit in range(at, at + size)} == free
        assert all(end[0] > at + size for (at, size), end in zip(listed, listed[1:], strict=False))
