"""Widener: lets nodes of one rank compute in float32 what are terms of a sum of float16."""

from __future__ import annotations

import onnx_ir as ir

from ..placement.local_node import LocalGraph
from ..placement.wide_sums import NARROW, WIDE

_TYPES = ("to", "dtype", "output_dtype")
"""Attributes that name the type of an output."""


class Widener:
    """Changes the types of values in the graph of one rank."""

    def __init__(self, graph: LocalGraph) -> None:
        self._graph = graph
        self._wide: dict[ir.Value, ir.Value] = {}

    def widen(self, node: ir.Node) -> None:
        """Let a node take and make float32 in the place of float16."""
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == NARROW:
                node.replace_input_with(index, self._widened(value, node))
        for value in node.outputs:
            if value.dtype == NARROW:
                value.type = ir.TensorType(WIDE)  # a new one: a clone shares its types
        for name in _TYPES:
            named = node.attributes.get(name)
            if named is not None and named.type == ir.AttributeType.INT and named.value == NARROW:
                node.attributes[name] = ir.AttrInt64(name, int(WIDE))

    def _widened(self, value: ir.Value, user: ir.Node) -> ir.Value:
        made = self._wide.get(value)
        if made is None:
            cast = self._graph.node(
                "Cast", [value], f"{value.name}.wide", {"to": int(WIDE)}, dtype=WIDE
            )
            user.prepend(cast)
            made = self._wide[value] = cast.outputs[0]
            made.shape = value.shape
        return made

    def narrow(self, value: ir.Value, nodes: list[ir.Node]) -> ir.Value:
        """A sum as float16 again, by a node behind the `nodes` that make it."""
        stem = f"{value.name}.narrow"
        nodes.append(self._graph.node("Cast", [value], stem, {"to": int(NARROW)}, dtype=NARROW))
        return nodes[-1].outputs[0]
