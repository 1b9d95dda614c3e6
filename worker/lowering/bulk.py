"""How much a model's lowering has made out of nothing, and the bound: a few bytes of a file may ask for anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_BYTES = 1 << 29
"""Of arrays and long tuples that lowering makes (masks, ranges, identities): ONNX's own bound for a file is four times
that, and networks have some megabytes."""
_MOST_RESULTS = 1 << 20
"""Results of all nodes: ten times those of the largest networks."""
_MOST_LEAVES = 1 << 20
"""Items of a tuple, those of tuples inside of it included: each level may hold the one before twice."""
_ITEM = 64
"""Bytes of a number in a tuple, and less than those of a tensor."""


class Bulk:
    """What one model's lowering has made so far; each of the methods raises ValueError where that is too much."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, int]] = {}  # objects and their leaves by id(), theirs while they are kept
        self._bytes = self._results = 0

    def add_value(self, value: Any) -> None:
        """Count an array, unless its memory was counted or is the file's, or a long tuple."""
        if isinstance(value, np.ndarray):
            owner = _owner(value)
            self._add(owner, owner.nbytes if owner.flags.owndata else 0, 1)
        elif isinstance(value, tuple):
            self._add(value, len(value) * _ITEM, self._leaves(value))

    def add_results(self, count: int) -> None:
        """Count the results of a node."""
        self._results += count
        if self._results > _MOST_RESULTS:
            raise ValueError(f"the operators before it have more than {_MOST_RESULTS} results, which no network has")

    def _leaves(self, value: tuple[Any, ...]) -> int:
        """The leaves of a tuple; those of tuples inside of it that a node gave are known."""
        if id(value) in self._kept:
            return self._kept[id(value)][1]
        count = sum(self._leaves(item) if isinstance(item, tuple) else 1 for item in value)
        if count > _MOST_LEAVES:
            raise ValueError(f"a tuple of {count} values, expected at most {_MOST_LEAVES}")
        return count

    def _add(self, value: Any, size: int, leaves: int) -> None:
        if id(value) in self._kept or not size:
            return
        self._kept[id(value)] = value, leaves
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise ValueError(f"it and the nodes before it make constants of more than {_MOST_BYTES >> 20} MiB, which "
                             f"are not in the file: refused")


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
