"""Fusion: says which nodes onnxruntime computes together with the node before them.

A collective between two nodes parts them: what was one kernel is two then.
"""

from __future__ import annotations

import onnx_ir as ir

from .operator_node import OperatorNode, Strategy
from .placements import WHOLE

CONVOLUTIONS = {"Conv", "ConvTranspose", "FusedConv", "QLinearConv"}
_PRODUCTS = {"MatMul"}
_ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid"}


def is_fused(node: OperatorNode, strategy: Strategy) -> bool:
    """Whether a node costs nothing, as the convolution or product before it does its work.

    That is so for an activation, and for the addition of a bias or of images. Of several ranks it
    is only where no collective lies between: a whole value comes from a collective.
    """
    kind, alone = node.node.op_type, node.ranks == 1
    if kind not in _ACTIVATIONS and kind != "Add":
        return False
    for index, value in enumerate(node.node.inputs):
        maker = _maker(value)
        if maker is None or not alone and strategy.inputs[index] == WHOLE:
            continue
        if kind == "Add" and maker.op_type in _PRODUCTS and _is_bias(node, 1 - index):
            return True
        if kind == "Add" and maker.op_type == "Conv":
            return True
        if kind != "Add" and (maker.op_type == "Conv" or _adds_images(maker)):
            return True
    return False


def _adds_images(node: ir.Node) -> bool:
    makers = [_maker(value) for value in node.inputs]
    return node.op_type == "Add" and any(
        one is not None and one.op_type == "Conv" for one in makers
    )


def _maker(value: ir.Value | None) -> ir.Node | None:
    """The node that makes a value for one node alone."""
    if value is None or len(value.uses()) > 1 or value.is_graph_output():
        return None
    return value.producer()


def _is_bias(node: OperatorNode, index: int) -> bool:
    value, dims = node.node.inputs[index], node.inputs[index]
    return value is not None and value.is_initializer() and dims is not None and len(dims) == 1
