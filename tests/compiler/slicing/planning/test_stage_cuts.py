"""Cuts by dynamic programming are as good as the best of all cuts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.compiler.slicing.planning.stage_cuts import Chain, best_cuts

pytestmark = pytest.mark.pure

COSTS = st.floats(0.0, 8.0, allow_subnormal=False)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    count, resources = draw(st.integers(1, 7)), draw(st.integers(0, 4))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, max(resources - 1, 0)))
    return Chain(
        draw(st.lists(COSTS, min_size=count, max_size=count)),
        draw(st.lists(pairs, max_size=8)) if resources else [],
        draw(st.lists(COSTS, min_size=resources, max_size=resources)),
        [
            0.0,
            *draw(st.lists(COSTS | st.just(np.inf), min_size=count - 1, max_size=count - 1)),
            0.0,
        ],
    )


def largest(chain: Chain, cuts: Sequence[int]) -> float:
    """The cost of the largest stage, computed one by one."""
    found = []
    ends = [0, *cuts, len(chain.nodes)]
    for start, end in zip(ends, ends[1:], strict=False):
        used = {resource for position, resource in chain.uses if start <= position < end}
        shared = sum(chain.resources[resource] for resource in used)
        found.append(
            sum(chain.nodes[start:end]) + shared + chain.crossing[start] + chain.crossing[end]
        )
    return max(found)


@given(chains(), st.integers(1, 4))
def test_no_cut_is_better(chain: Chain, stages: int) -> None:
    count = len(chain.nodes)
    every = [list(cuts) for cuts in combinations(range(1, count), stages - 1)] if count else []
    able = [cuts for cuts in every if np.isfinite(largest(chain, cuts))]
    found = best_cuts(chain, stages)
    if not able:
        assert found is None
        return
    assert found is not None
    least = min(largest(chain, cuts) for cuts in able)
    cost = largest(chain, found)
    assert cost <= 1.01 * least * (1 + 1e-9)
    crossing = sum(chain.crossing[cut] for cut in found)
    rivals = [
        sum(chain.crossing[cut] for cut in cuts)
        for cuts in able
        if largest(chain, cuts) <= 1.01 * least * (1 - 1e-9)
    ]
    assert crossing <= min(rivals, default=np.inf) * (1 + 1e-9)


def test_a_weight_counts_once_in_each_stage_that_uses_it() -> None:
    nodes, crossing = [4.0, 1.0, 1.0, 1.0], [0.0, 0.1, 0.1, 0.1, 0.0]
    assert best_cuts(Chain(nodes, [], [], crossing), 2) == [1]
    chain = Chain(nodes, [(2, 0), (3, 0)], [10.0], crossing)
    assert best_cuts(chain, 2) == [2]
    assert [largest(chain, [cut]) for cut in (1, 2, 3)] == pytest.approx([13.1, 12.1, 16.1])


def test_less_crosses_where_stages_are_as_large() -> None:
    chain = Chain([1.0, 0.001, 1.0], [], [], [0.0, 0.009, 0.001, 0.0])
    assert best_cuts(chain, 2) == [2]
