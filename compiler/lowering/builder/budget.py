"""Budget of a lowering: bounds on what is made out of nothing, against malicious files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .tensor import Value

_MOST_BYTES = 1 << 29
"""Bytes of masks, ranges, identities and long tuples: a quarter of ONNX's bound for a file."""
MOST_RESULTS = 1 << 20
"""Results of all nodes: ten times those of the largest networks."""
_MOST_LEAVES = 1 << 20
"""Items of a tuple and of the tuples inside it: each level may hold the one before twice."""
_ITEM_BYTES = 64
"""The size of a number in a tuple; a tensor takes more."""


class LoweringBudget:
    """Sizes of what one model's lowering has made; its methods raise ValueError beyond a bound."""

    def __init__(self) -> None:
        self._counted: dict[
            int, tuple[Value, int]
        ] = {}  # objects and their leaves by id(); kept, so that ids stay theirs
        self._bytes = 0
        self._results = 0

    def add_value(self, value: Value) -> None:
        """Count an array or a tuple; an array of the file's memory, or counted before, is free."""
        if isinstance(value, np.ndarray):
            owner = _memory_owner(value)
            self._add(owner, owner.nbytes if owner.flags.owndata else 0, 1)
        elif isinstance(value, tuple):
            self._add(value, len(value) * _ITEM_BYTES, self._leaves(value))

    def add_results(self, count: int) -> None:
        """Count the results of a node."""
        self._results += count
        if self._results > MOST_RESULTS:
            raise ValueError(
                f"the operators before it have more than {MOST_RESULTS} results, which no network "
                f"has"
            )

    def _leaves(self, value: tuple[Value, ...]) -> int:
        """The leaves of a tuple; those of tuples that were counted before are known."""
        if id(value) in self._counted:
            return self._counted[id(value)][1]
        count = sum(self._leaves(item) if isinstance(item, tuple) else 1 for item in value)
        if count > _MOST_LEAVES:
            raise ValueError(f"a tuple of {count} values, expected at most {_MOST_LEAVES}")
        return count

    def _add(self, value: Value, size: int, leaves: int) -> None:
        if id(value) in self._counted or not size:
            return
        self._counted[id(value)] = value, leaves
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise ValueError(
                f"it and the nodes before it make constants of more than {_MOST_BYTES >> 20} MiB, "
                f"which are not in the file: refused"
            )


def _memory_owner(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
