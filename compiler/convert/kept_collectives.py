"""Kept collectives: those whose results nothing uses, which other ranks wait for nevertheless."""

from __future__ import annotations

import onnx_ir as ir

from ..onnx_graph.collective_nodes import DOMAIN


def keep_collectives(model: ir.Model) -> int:
    """Make what collectives without a use give an output of the model; returns how many.

    Otherwise they would be removed. A Send has no output of its own: it gets one.
    """
    found = [node for node in model.graph if node.domain == DOMAIN and not _is_used(node)]
    for node in found:
        if not node.outputs:
            node.resize_outputs(1)
            node.outputs[0].name = f"{node.name or node.op_type}.{len(model.graph.outputs)}"
        model.graph.outputs.append(node.outputs[0])
    return len(found)


def _is_used(node: ir.Node) -> bool:
    return any(one.uses() or one.is_graph_output() for one in node.outputs)
