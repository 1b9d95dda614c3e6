"""Expander: puts new nodes before the node whose place they take."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph

_SPLITS_BY_COUNT = 18
"""The opset since which Split has a number of outputs, and all reductions have axes as inputs."""


class Expander:
    """The place of one node, and what is known of the values around it."""

    def __init__(
        self, node: ir.Node, source: SourceGraph, parts: dict[ir.Node, Sequence[ir.Value]]
    ) -> None:
        self.node = node
        self.parts = parts
        """The parts of nodes that split tensors into sequences, so far."""

        self._made: list[ir.Node] = []
        self._dims = source.dims
        self._known = source.constants
        self.opset = source.model.opset_imports.get("", 1)

    def at(self, node: ir.Node) -> Expander:
        """An expander that puts new nodes before another node."""
        other = copy(self)
        other.node = node
        return other

    def op(
        self,
        operator: str,
        *inputs: ir.Value | None,
        outputs: int = 1,
        **attributes: Any,
    ) -> ir.Value:
        """The first output of a new node; `ops` gives all."""
        return self.ops(operator, *inputs, outputs=outputs, **attributes)[0]

    def ops(
        self, operator: str, *inputs: ir.Value | None, outputs: int = 1, **attributes: Any
    ) -> Sequence[ir.Value]:
        """The outputs of a new node, of ONNX's own domain."""
        made = ir.node(operator, inputs, attributes, num_outputs=outputs)
        self.node.prepend(made)
        self._made.append(made)
        return made.outputs

    def withdraw(self) -> None:
        """Remove the nodes that were made, of which none took the place of another."""
        for made in reversed(self._made):
            assert made.graph is not None
            made.graph.remove(made, safe=True)

    def constant(self, value: object, dtype: object = np.int64) -> ir.Value:
        """A constant."""
        return self.op("Constant", value=ir.tensor(np.asarray(value, dtype)))  # type: ignore[call-overload]

    def like(self, value: ir.Value, number: float) -> ir.Value:
        """A number in the dtype of an input of the node."""
        return self.constant(number, self.dtype(value))

    def cast(self, value: ir.Value, dtype: object) -> ir.Value:
        """A value in another dtype."""
        return self.op("Cast", value, to=int(ir.DataType.from_numpy(np.dtype(dtype))))  # type: ignore[call-overload]

    def dtype(self, value: ir.Value) -> np.dtype[np.generic]:
        """The dtype of an input of the node; ValueError where it is not known."""
        if value.dtype is None:
            raise ValueError("the type of its input is not known")
        return np.dtype(value.dtype.numpy())

    def rank(self, value: ir.Value) -> int:
        """The number of dimensions of an input of the node; ValueError where it is not known."""
        dims = self._dims.get(str(value.name))
        if dims is not None:
            return len(dims)
        if value.shape is None:
            raise ValueError("the number of dimensions of its input is not known")
        return len(value.shape)

    def sizes(self, value: ir.Value) -> tuple[int | None, ...]:
        """The sizes of an input of the node, None for an open one."""
        dims = self._dims.get(str(value.name))
        if dims is None:
            return (None,) * self.rank(value)
        return tuple(one[0] if len(set(one)) == 1 else None for one in dims)

    def array(self, value: ir.Value) -> np.ndarray:
        """The elements of a constant input; ValueError where the model computes them."""
        if str(value.name) in self._known:
            return self._known[str(value.name)]
        if value.const_value is None:
            raise ValueError("one of its inputs is computed by the model, and has to be constant")
        return value.const_value.numpy()

    def halves(self, value: ir.Value, axis: int) -> Sequence[ir.Value]:
        """Two parts of equal size."""
        more = {"num_outputs": 2} if self.opset >= _SPLITS_BY_COUNT else {}
        return self.ops("Split", value, outputs=2, axis=axis, **more)

    def reduced(
        self, operator: str, value: ir.Value, axes: Sequence[int], keepdims: int = 1
    ) -> ir.Value:
        """A reduction, whose axes are an attribute in older opsets."""
        if self.opset >= _SPLITS_BY_COUNT or operator == "ReduceSum":
            return self.op(operator, value, self.constant(list(axes)), keepdims=keepdims)
        return self.op(operator, value, axes=list(axes), keepdims=keepdims)

    def swapped(self, value: ir.Value, rank: int) -> ir.Value:
        """The last two axes in the other order."""
        order = [*range(rank - 2), rank - 1, rank - 2]
        return self.op("Transpose", value, perm=order)
