"""Operator nodes: a node as rules see it, and the strategies that rules give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import Dims
from ...source_graph.source_graph import SourceGraph
from .placements import WHOLE, Placement


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compute a node; missing optional inputs count as Replicated."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class NodeOperand:
    """An input or an output of a node, by its position."""

    index: int
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """A node with what rules need to know of it.

    `inputs` and `outputs` have the dimensions, None where they are unknown or the operand is
    missing; `constants` the values of small inputs that are constants, by position.
    """

    node: ir.Node
    inputs: tuple[Dims | None, ...]
    outputs: tuple[Dims | None, ...]
    ranks: int
    choices: int = 1
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)

    def dims(self, operand: NodeOperand) -> Dims | None:
        """The dimensions of an operand."""
        found = self.outputs if operand.is_output else self.inputs
        return found[operand.index] if operand.index < len(found) else None

    def int_of(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        found = self.node.attributes.get(name)
        return default if found is None else found.as_int()

    def ints_of(self, name: str) -> tuple[int, ...] | None:
        """An attribute of several integers; None where it is missing."""
        found = self.node.attributes.get(name)
        return None if found is None else tuple(found.as_ints())

    def text_of(self, name: str, default: str = "") -> str:
        """A text attribute."""
        found = self.node.attributes.get(name)
        return default if found is None else found.as_string()

    def axis_of(self, default: int = 0, rank: int | None = None, name: str = "axis") -> int:
        """An attribute that names an axis of input 0, or of `rank` axes, counted from the front."""
        count = len(self.inputs[0] or ()) if rank is None else rank
        return self.int_of(name, default) % max(count, 1)

    @property
    def shapes_known(self) -> bool:
        """Whether the dimensions of all operands that are there are known.

        Without them a rule cannot tell which operands have an axis, and would leave one whole.
        """
        pairs = [
            *zip(self.node.inputs, self.inputs, strict=True),
            *zip(self.node.outputs, self.outputs, strict=True),
        ]
        return all(dims is not None for value, dims in pairs if value is not None and value.name)

    def has_input(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input_type(self, index: int) -> ir.DataType | None:
        """The dtype of an input; None where it is missing or unknown."""
        found = self.node.inputs[index] if index < len(self.node.inputs) else None
        return None if found is None else found.dtype

    @property
    def whole(self) -> Strategy:
        """The strategy in which every rank computes the whole node."""
        return Strategy((WHOLE,) * len(self.inputs), (WHOLE,) * len(self.outputs))

    def strategy(
        self, inputs: Mapping[int, Placement], outputs: Mapping[int, Placement]
    ) -> Strategy:
        """A strategy by its operands that are not replicated."""
        return Strategy(
            tuple(inputs.get(i, WHOLE) for i in range(len(self.inputs))),
            tuple(outputs.get(i, WHOLE) for i in range(len(self.outputs))),
        )


def operator_nodes(graph: SourceGraph, ranks: int) -> dict[str, OperatorNode]:
    """All nodes as rules see them, by name."""
    return {str(node.name): _operator_node(graph, node, ranks) for node in graph.nodes}


def _operator_node(graph: SourceGraph, node: ir.Node, ranks: int) -> OperatorNode:
    def dims_of(values: Sequence[ir.Value | None]) -> tuple:  # type: ignore[type-arg]
        return tuple(None if one is None else graph.dims.get(str(one.name)) for one in values)

    constants = {
        index: graph.constants[str(value.name)]
        for index, value in enumerate(node.inputs)
        if value is not None and value.name in graph.constants
    }
    inputs, outputs = dims_of(node.inputs), dims_of(node.outputs)
    return OperatorNode(node, inputs, outputs, ranks, graph.choices, constants)
