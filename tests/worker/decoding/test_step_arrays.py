"""Indexes of a step: each query gets its rows, and each token its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.serving.steps import DecoderStep
from rankmesh.compiler.decoders.step_graph import (
    KEPT_ROWS,
    LAST,
    PLACES,
    POSITIONS,
    QUERY_LENGTHS,
    ROWS,
    TOKENS,
    WANTED,
)
from rankmesh.worker.decoding.step_arrays import StepNumbers

pytestmark = pytest.mark.pure


def written(step: DecoderStep) -> dict[str, np.ndarray]:
    """The arrays that a step fills."""
    numbers = StepNumbers.of(step)
    slots, rows, tokens, wanted = numbers.shape
    arrays = {
        TOKENS: np.full((1, tokens), -9),
        POSITIONS: np.full((1, tokens), -9),
        ROWS: np.full((slots, rows), -9),
        PLACES: np.full(tokens, -9),
        KEPT_ROWS: np.full(slots, -9),
        WANTED: np.full(wanted, -9),
        LAST: np.full(slots, -9),
        QUERY_LENGTHS: np.full(slots, -9),
    }
    numbers.write(arrays)
    return arrays


SEQUENCES = st.dictionaries(
    st.integers(0, 7), st.tuples(st.integers(0, 30), st.integers(1, 26)), min_size=1
)


@given(SEQUENCES)
def test_each_query_has_its_rows_and_each_token_its_place(
    sequences: dict[int, tuple[int, int]],
) -> None:
    """The rows are those that a loop finds: kept rows are numbered before the new ones."""
    slots = sorted(sequences)
    tokens = [[100 * slot + at for at in range(sequences[slot][1])] for slot in slots]
    lengths = [sequences[slot][0] for slot in slots]
    found = written(DecoderStep.of(slots, lengths, tokens, [0], 0, 0, ()))
    count, at = max(slots) + 1, 0
    for slot in range(count):
        length, new = sequences.get(slot, (0, 0))
        own = [count + at + one for one in range(new)]
        wanted = own
        if beside := new % 8 == 1:
            wanted = [slot, *own] if length else [*own, own[-1]]
        assert found[QUERY_LENGTHS][slot] == len(wanted)
        assert found[ROWS][slot][: len(wanted)].tolist() == wanted
        assert found[KEPT_ROWS][slot] == (own[-1] if new else slot)
        end = length + new + (1 if beside and not length else 0)
        assert found[LAST][slot] == (end - 1 if new else 0)
        first = 1 if beside and length else 0
        rows = found[ROWS].shape[1]
        places = [slot * rows + first + one for one in range(new)]
        assert found[PLACES][at : at + new].tolist() == places
        assert found[POSITIONS][0, at : at + new].tolist() == [*range(length, length + new)]
        at += new
    assert found[TOKENS][0].tolist() == [one for part in tokens for one in part]
    assert found[ROWS].min() >= 0
    assert found[ROWS].max() < count + at


def test_no_block_of_a_query_has_one_row() -> None:
    """One row takes another path of the attention, which rounds differently."""
    step = DecoderStep.of([0, 1, 3], [5, 0, 0], [[7], [8], [1, 2, 3]], [0, 1, 4], 0, 1, ())
    assert written(step)[QUERY_LENGTHS].tolist() == [2, 2, 0, 3]
    step = DecoderStep.of([0, 1], [5, 0], [[7] * 33, [8] * 65], [0], 0, 1, ())
    assert written(step)[QUERY_LENGTHS].tolist() == [34, 66]
