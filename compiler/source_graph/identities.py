"""Identity removal: values take the place of their copies, except where a graph returns the copy.

A body must return a value of its own: onnxruntime refuses one that returns an outer value.
"""

from __future__ import annotations

import onnx_ir as ir


class IdentityRemoval(ir.passes.InPlacePass):
    """Removes Identity nodes of a model and of its bodies, except those whose copy is returned."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Remove the nodes from `model`."""
        removed = [node for node in model.graph.all_nodes() if _is_removable(node)]
        for node in removed:
            value, copy = node.inputs[0], node.outputs[0]
            assert value is not None and node.graph is not None
            if value.shape is None:
                value.shape = copy.shape
            if value.type is None:
                value.type = copy.type
            copy.replace_all_uses_with(value)
            node.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, bool(removed))


def _is_removable(node: ir.Node) -> bool:
    return (
        node.op_type == "Identity"
        and node.domain in ("", "ai.onnx")
        and node.inputs[0] is not None
        and not node.outputs[0].is_graph_output()
    )
