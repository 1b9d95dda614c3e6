"""Step feeds: inputs of a step graph that fit together, for a proof that ranks compute the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...comm.arrays import Array
from .step_graph import (
    CAPACITY,
    KEPT_ROWS,
    LAST,
    PLACES,
    POSITIONS,
    QUERY_LENGTHS,
    ROWS,
    TOKENS,
    WANTED,
)

SEQUENCES, CAPACITY_TOKENS = 3, 12
_NEW = (1, 2, 2)
"""New tokens of the sequences, after which each is full: all keys and values are then known. Each
query has two rows, as attention wants room for its padding, too.
"""

_STRIDE = 7919
"""Between the ids of tokens: a prime, so that they spread over the vocabulary."""


def step_indexes(vocabulary: int) -> Mapping[str, Array]:
    """Tokens and indexes of a ragged step. The first sequence has its previous row beside its new
    one.
    """
    starts = [sum(_NEW[:at]) for at in range(SEQUENCES)]
    total, width = sum(_NEW), 2
    rows = np.full((SEQUENCES, width), SEQUENCES, np.int64)
    places, ends, positions = [], [], []
    for at, (start, new) in enumerate(zip(starts, _NEW, strict=True)):
        own = [SEQUENCES + start + one for one in range(new)]
        beside = [at] if new == 1 else []
        rows[at, : len(beside) + new] = [*beside, *own]
        places += [at * width + len(beside) + one for one in range(new)]
        positions += [CAPACITY_TOKENS - new + one for one in range(new)]
        ends.append(own[-1])
    tokens = [(_STRIDE * at) % vocabulary for at in range(1, total + 1)]
    return {
        TOKENS: np.array([tokens], np.int64),
        POSITIONS: np.array([positions], np.int64),
        ROWS: rows,
        PLACES: np.array(places, np.int64),
        KEPT_ROWS: np.array(ends, np.int64),
        WANTED: np.array([0, 1, total - 1], np.int64),
        LAST: np.full(SEQUENCES, CAPACITY_TOKENS - 1, np.int32),
        QUERY_LENGTHS: np.full(SEQUENCES, width, np.int32),
        CAPACITY: np.array([CAPACITY_TOKENS], np.int32),
    }
