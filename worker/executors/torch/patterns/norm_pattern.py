"""Norm pattern: RMSNorm that a graph spells out, found as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onnx import GraphProto, NodeProto, helper

from .node_uses import NodeUses, cast_target

DOMAIN, OPERATOR = "rankmesh.torch", "RootMeanSquareNorm"
"""Its inputs: the tensor, and the scale if there is one."""
Numbers = Callable[[str], Sequence[float] | None]
"""The elements of a small constant; None for all other values."""


class _Norm(NamedTuple):
    """x / Sqrt(ReduceMean(x * x) + epsilon), the nodes of it, and the last of these."""

    x: str
    axes: Sequence[int]
    epsilon: float
    nodes: Sequence[NodeProto]


def with_norms(
    graph: GraphProto, nodes: Sequence[NodeProto], numbers: Numbers
) -> Sequence[NodeProto]:
    """`nodes` of a graph, with one in place of those of each RMSNorm.

    These are the squares, their mean, the root and the product with x or the quotient. Casts
    around them and a product with a scale behind them belong to it, too. Only values that nothing
    else takes are replaced.
    """
    if not any(node.op_type == "ReduceMean" for node in nodes):
        return nodes
    finder = _Finder(graph, numbers)
    made: dict[str, NodeProto] = {}
    gone: set[str] = set()
    for node in nodes:
        found = finder.scaled(node) or finder.cast(node) or finder.whole(node)
        if found:
            new, replaced = found
            made[node.output[0]] = new
            gone.update(one.output[0] for one in replaced)
    kept = (one for one in nodes if not one.output or one.output[0] not in gone)
    return [made.get(one.output[0], one) if one.output else one for one in kept]


class _Finder(NodeUses):
    """Looks for a norm that ends in a node; gives the new node, and those that go beside it."""

    def __init__(self, graph: GraphProto, numbers: Numbers) -> None:
        super().__init__(graph)
        self._numbers = numbers

    def scaled(self, last: NodeProto) -> tuple[NodeProto, Sequence[NodeProto]] | None:
        """A product of a norm, which may be cast, and a scale."""
        if last.domain or last.op_type != "Mul":
            return None
        for at in (0, 1):
            before = self.maker(last.input[at], ("Mul", "Div", "Cast"), 1)
            found = (self.cast(before) or self.whole(before)) if before else None
            if before and found:
                new, gone = found
                new.input.append(last.input[1 - at])
                new.output[0], new.name = last.output[0], last.name
                return new, [*gone, before]
        return None

    def cast(self, last: NodeProto) -> tuple[NodeProto, Sequence[NodeProto]] | None:
        """A norm that is cast, of a tensor that may be cast."""
        if last.domain or last.op_type != "Cast":
            return None
        before = self.maker(last.input[0], ("Mul", "Div"), 1)
        norm = self._norm(before) if before else None
        if before is None or norm is None:
            return None
        new, gone = self._node(norm, last)
        new.attribute.append(helper.make_attribute("narrow", cast_target(last)))
        return new, [*gone, before]

    def whole(self, last: NodeProto) -> tuple[NodeProto, Sequence[NodeProto]] | None:
        """A norm without a cast behind it."""
        norm = self._norm(last)
        return self._node(norm, last) if norm else None

    def _node(self, norm: _Norm, last: NodeProto) -> tuple[NodeProto, Sequence[NodeProto]]:
        squares = norm.nodes[-1]
        wide = self.maker(norm.x, ("Cast",), 3 if squares.op_type == "Mul" else 2)
        gone = [*norm.nodes, wide] if wide else norm.nodes
        source = wide.input[0] if wide else norm.x
        new = helper.make_node(
            OPERATOR, [source], [last.output[0]], last.name, domain=DOMAIN,
            axes=norm.axes, epsilon=norm.epsilon, wide=cast_target(wide) if wide else 0,
        )  # fmt: skip
        return new, gone

    def _norm(self, last: NodeProto) -> _Norm | None:
        """The norm whose quotient or product is `last`."""
        if last.domain:
            return None
        if last.op_type == "Div":
            return self._of_root(last.input[0], last.input[1], [])
        if last.op_type != "Mul":
            return None
        for at in (0, 1):
            inverse = self.maker(last.input[at], ("Reciprocal", "Div"), 1)
            if inverse is None:
                continue
            if inverse.op_type == "Div" and self._numbers(inverse.input[0]) != [1]:
                continue
            found = self._of_root(last.input[1 - at], inverse.input[-1], [inverse])
            if found:
                return found
        return None

    def _of_root(self, x: str, root: str, nodes: Sequence[NodeProto]) -> _Norm | None:
        """The norm of x by a root: Sqrt(Add(ReduceMean(Pow(x, 2) or Mul(x, x)), epsilon))."""
        sqrt = self.maker(root, ("Sqrt",), 1)
        added = self.maker(sqrt.input[0], ("Add",), 1) if sqrt else None
        if sqrt is None or added is None:
            return None
        for at in (0, 1):
            mean = self.maker(added.input[at], ("ReduceMean",), 1)
            epsilon = self._numbers(added.input[1 - at])
            axes = self._axes(mean) if mean else None
            squares = self.maker(mean.input[0], ("Pow", "Mul"), 1) if mean else None
            if mean and squares and axes and epsilon and len(epsilon) == 1 and self._of(squares, x):
                return _Norm(x, axes, epsilon[0], [*nodes, sqrt, added, mean, squares])
        return None

    def _of(self, squares: NodeProto, x: str) -> bool:
        """Whether these are the squares of x."""
        if squares.op_type == "Mul":
            return list(squares.input) == [x, x]
        return squares.input[0] == x and self._numbers(squares.input[1]) == [2]

    def _axes(self, mean: NodeProto) -> list[int] | None:
        """The axes of a mean, where they are known and are kept."""
        given: dict[str, Any] = {
            one.name: helper.get_attribute_value(one) for one in mean.attribute
        }
        if not given.get("keepdims", 1):
            return None
        axes = self._numbers(mean.input[1]) if len(mean.input) > 1 else given.get("axes")
        return [int(one) for one in axes] if axes else None
