"""Local nodes: a node in the graph of one rank, which its rule adapts to the rank's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from .operator_node import OperatorNode, Strategy
from .placements import Placement, Split, Windows

_COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Not")


class LocalGraph:
    """The graph of one rank while it is written: makes constants and nodes with new names."""

    def __init__(self, graph: ir.Graph, rank: int) -> None:
        self.graph = graph
        self.rank = rank
        self._names = {v.name for v in graph.inputs} | set(graph.initializers)
        for node in graph.all_nodes():
            self._names |= {node.name, *(value.name for value in node.outputs)}

    def fresh(self, stem: str) -> str:
        """A name that no value and no node has."""
        name, number = stem, 1
        while name in self._names:
            name, number = f"{stem}.{number}", number + 1
        self._names.add(name)
        return name

    def constant(self, array: np.ndarray, stem: str) -> ir.Value:
        """A new initializer."""
        name = self.fresh(stem)
        value = ir.val(name, const_value=ir.tensor(array, name=name))
        self.graph.register_initializer(value)
        return value

    def node(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        stem: str,
        attributes: Mapping[str, object] | None = None,
        domain: str = "",
        dtype: ir.DataType | None = None,
        outputs: int = 1,
    ) -> ir.Node:
        """A new node with at most one output, in no place yet; give the output's dtype if it is
        another.

        Without `dtype` it is bool for a comparison, else that of the first input.
        """
        found = ir.node(
            operator,
            inputs,
            attributes or {},  # type: ignore[arg-type]  # the values are what ir.node takes
            domain=domain,
            name=self.fresh(f"{stem}.{operator}"),
            num_outputs=outputs,
        )
        if not outputs:
            return found
        (output,) = found.outputs
        output.name = self.fresh(stem)
        first = inputs[0] if inputs else None
        if operator in _COMPARISONS:
            output.dtype = ir.DataType.BOOL
        elif dtype is not None:
            output.dtype = dtype
        elif first is not None and first.dtype is not None:
            output.dtype = first.dtype
        return found


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node in the graph of one rank, its strategy, and what the whole node was like.

    `node` is the rank's copy, whose inputs are already the rank's parts; `source` describes the
    whole node.
    """

    graph: LocalGraph
    node: ir.Node
    source: OperatorNode
    strategy: Strategy

    @property
    def rank(self) -> int:
        """The rank of the graph, within its stage."""
        return self.graph.rank

    def input(self, index: int) -> ir.Value:
        """An input that is there."""
        found = self.node.inputs[index]
        assert found is not None
        return found

    def set(self, name: str, value: int | Sequence[int]) -> None:
        """Set an attribute to an integer, or several."""
        if isinstance(value, int):
            self.node.attributes[name] = ir.AttrInt64(name, value)
        else:
            self.node.attributes[name] = ir.AttrInt64s(name, tuple(value))

    def set_text(self, name: str, value: str) -> None:
        """Set an attribute to a text."""
        self.node.attributes[name] = ir.AttrString(name, value)

    def set_texts(self, name: str, values: Sequence[str]) -> None:
        """Set an attribute to several texts."""
        self.node.attributes[name] = ir.AttrStrings(name, values)

    def set_constant(self, index: int, array: np.ndarray) -> None:
        """Give an input a constant of this rank."""
        name = f"{self.node.name}.{index}"
        self.node.replace_input_with(index, self.graph.constant(array, name))

    def before(
        self,
        operator: str,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, object] | None = None,
    ) -> ir.Value:
        """The output of a new node before this one."""
        kept = inputs[1].dtype if operator == "Where" else None
        made = self.graph.node(operator, inputs, f"{self.node.name}.local", attributes, dtype=kept)
        self.node.prepend(made)
        return made.outputs[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        """A new constant of this rank."""
        return self.graph.constant(array, f"{self.node.name}.constant")

    def after(
        self,
        operator: str,
        others: Sequence[ir.Value],
        output: int = 0,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Let a new node of an output and `others` take the place of the output.

        Of several such nodes, the last one made stands first.
        """
        old = self.node.outputs[output]
        self._follow(self._made(operator, [old, *others], old, attributes), old)

    def select(self, mask: ir.Value, other: ir.Value, output: int = 0) -> None:
        """Let `other` take the place of an output where `mask` is false."""
        old = self.node.outputs[output]
        self._follow(self._made("Where", [mask, old, other], old), old)

    def _made(
        self,
        operator: str,
        inputs: Sequence[ir.Value],
        old: ir.Value,
        attributes: Mapping[str, object] | None = None,
    ) -> ir.Node:
        stem = f"{self.node.name}.local"
        return self.graph.node(operator, inputs, stem, attributes, dtype=old.dtype)

    def _follow(self, made: ir.Node, old: ir.Value) -> None:
        """Put `made` behind the node; its output takes the place, and the name, of `old`."""
        (new,) = made.outputs
        old.name, new.name = new.name, old.name
        new.shape, new.type = old.shape, old.type
        users = [(use.node, use.idx) for use in old.uses() if use.node is not made]
        for user, index in users:
            user.replace_input_with(index, new)
        outputs = self.graph.graph.outputs
        for index, value in enumerate(outputs):
            if value is old:
                outputs[index] = new
        self.node.append(made)

    def set_sizes(self, index: int, sizes: Mapping[int, int]) -> None:
        """Replace elements of the shape that input `index` is, by axis, with sizes of this rank."""
        known = self.source.constants.get(index)
        if known is not None:
            shape = known.copy()
            for axis, size in sizes.items():
                shape[axis] = size
            return self.set_constant(index, shape)
        positions = np.array(list(sizes), np.int64)
        values = np.array(list(sizes.values()), np.int64)
        patched = self.before(
            "ScatterElements",
            [self.input(index), self.constant(positions), self.constant(values)],
        )
        self.node.replace_input_with(index, patched)
        return None

    def local_sizes(self, placement: Placement) -> dict[int, int]:
        """The size of the split axis on this rank; nothing for a value that is not split."""
        if isinstance(placement, Split | Windows):
            return {placement.axis: placement.size(self.rank)}
        return {}
