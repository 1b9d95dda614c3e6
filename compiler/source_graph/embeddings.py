"""Embedding expansion: a fused embedding becomes the lookups, sums and normalisation it is made of.

Lookups of a split vocabulary are terms, which must be summed before the normalisation. Inside one
node there is no place for that, and each rank would hold the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir


class EmbeddingExpansion(ir.passes.InPlacePass):
    """Expands the nodes EmbedLayerNormalization of a model in opset 13 or later.

    One whose mask is missing, but counted, stays.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Expand the nodes of `model`."""
        found = [node for node in model.graph if _is_expandable(node)]
        for node in found:
            _Expansion(model.graph, node).run()
        return ir.passes.PassResult(model, bool(found))


def _is_expandable(node: ir.Node) -> bool:
    if node.op_type != "EmbedLayerNormalization" or node.domain != "com.microsoft":
        return False
    counts = len(node.outputs) > 1 and (
        bool(node.outputs[1].uses()) or node.outputs[1].is_graph_output()
    )
    return not counts or _input(node, 7) is not None


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


class _Expansion:
    """The nodes that take the place of one."""

    def __init__(self, graph: ir.Graph, node: ir.Node) -> None:
        self._graph = graph
        self._node = node

    def run(self) -> None:
        """Put the new nodes before the old one, and remove it."""
        ids, words = self._node.inputs[0], self._node.inputs[2]
        total = self._made("Add", [self._made("Gather", [words, ids]), self._positions()])
        segments = _input(self._node, 1)
        if segments is not None:
            looked_up = self._made("Gather", [self._node.inputs[4], segments])
            total = self._made("Add", [total, looked_up])
        epsilon = self._node.attributes.get("epsilon")
        normal = self._made(
            "LayerNormalization",
            [total, *self._node.inputs[5:7]],
            axis=-1,
            epsilon=1e-12 if epsilon is None else epsilon.as_float(),
        )
        self._replace([normal, self._count(), total])

    def _made(
        self, operator: str, inputs: Sequence[ir.Value | None], **attributes: float
    ) -> ir.Value:
        made = ir.node(operator, inputs, attributes)
        self._node.prepend(made)
        return made.outputs[0]

    def _constant(self, number: int) -> ir.Value:
        name = f"{self._node.outputs[0].name}.{number}"
        if name not in self._graph.initializers:
            tensor = ir.tensor(np.array([number], np.int64), name=name)
            self._graph.register_initializer(ir.val(name, const_value=tensor))
        return self._graph.initializers[name]

    def _positions(self) -> ir.Value:
        """The rows of the given positions, or as many rows as a sequence has places."""
        table, given = self._node.inputs[3], _input(self._node, 8)
        if given is not None:
            return self._made("Gather", [table, given])
        sizes = self._made("Shape", [self._node.inputs[0]])
        length = self._made("Gather", [sizes, self._constant(1)])
        return self._made("Slice", [table, self._constant(0), length, self._constant(0)])

    def _count(self) -> ir.Value | None:
        """How many ids of each sequence the mask lets through."""
        mask = _input(self._node, 7)
        if mask is None:
            return None
        return self._made("ReduceSum", [mask, self._constant(1)], keepdims=0)

    def _replace(self, values: Sequence[ir.Value | None]) -> None:
        for old, new in zip(self._node.outputs, values, strict=False):
            if new is not None:
                new.type, new.shape, name = old.type, old.shape, old.name
                old.replace_all_uses_with(new, replace_graph_outputs=True)
                old.name, new.name = None, name
        self._graph.remove(self._node, safe=True)
