"""Unsure sizes: sizes that elements decide, such as how many tokens an expert gets.

Each gets a number that is another one in each run, and so looks like an open dimension. A value
that follows from such numbers is unsure as well, and is never taken for a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

_FIRST = 16
_STEP = 3
"""The first number, and the step to the next one: there are at most as many runs."""


class UnsureSizes:
    """The unsure sizes of one run, and the names of values that follow from them."""

    def __init__(self, run: int) -> None:
        self.values: set[str] = set()
        self._next = _FIRST + run

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """A shape with a number in place of each -1."""
        return tuple(self._number() if size == -1 else size for size in sizes)

    def _number(self) -> int:
        self._next += _STEP
        return self._next

    def touch(self, node: ir.Node) -> bool:
        """Whether an input of a node is unsure."""
        return any(value is not None and value.name in self.values for value in node.inputs)

    def splits(self, node: ir.Node, values: Mapping[str, np.ndarray]) -> bool:
        """Whether a node is a Split of unsure sizes, or into such."""
        given = node.inputs[1] if node.op_type == "Split" and len(node.inputs) > 1 else None
        return given is not None and (self.touch(node) or given.name not in values)

    def parts(
        self, node: ir.Node, whole: Sequence[int], values: Mapping[str, np.ndarray]
    ) -> Iterator[tuple[int, ...]]:
        """The shapes of the outputs of a Split, which are unsure."""
        given, axis = node.inputs[1], node.attributes.get("axis")
        sizes = values.get(str(given.name)) if given is not None else None
        for index, value in enumerate(node.outputs):
            shape = list(whole)
            shape[axis.as_int() if axis else 0] = -1 if sizes is None else int(sizes[index])
            self.values.add(str(value.name))
            yield self.shape(shape)
