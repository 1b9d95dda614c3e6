"""Normalisation rules: split softmax, normalisation, sorting and running sums, along other axes."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.operator_node import OperatorNode
from .registry import factors_of


def axes_apart(node: OperatorNode, axes: Iterable[int], outputs: Iterable[int] = (0,)) -> Factors:
    """A factor for each axis of input 0 that is not one of `axes`, which stay whole."""
    dims = node.inputs[0] or ()
    whole = {axis % max(len(dims), 1) for axis in axes}
    return Factors(
        [
            Factor({0: Axis(axis)}, {index: Axis(axis) for index in outputs})
            for axis in range(len(dims))
            if axis not in whole
        ]
    )


@factors_of("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: OperatorNode) -> Factors:
    """Whole along its axis; before opset 13 along all axes from it on."""
    axis = node.axis_of(-1)
    if (node.node.version or 13) < 13:
        return axes_apart(node, range(node.axis_of(1), len(node.inputs[0] or ())))
    return axes_apart(node, [axis])


@factors_of("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(node: OperatorNode) -> Factors:
    """Whole along the axes from `axis` on; its statistics have size 1 there."""
    count = len(node.inputs[0] or ())
    outputs = [index for index, dims in enumerate(node.outputs) if dims]
    return axes_apart(node, range(node.axis_of(-1), count), outputs)


@factors_of("CumSum", "TopK", "LpNormalization")
def along_one_axis(node: OperatorNode) -> Factors:
    """Whole along one axis."""
    axis = node.int_of("axis", -1)
    if node.node.op_type == "CumSum":
        if 1 not in node.constants:
            return Factors(())
        axis = int(node.constants[1].flat[0])
    return axes_apart(node, [axis], range(len(node.outputs)))


@factors_of("BatchNormalization")
def batch_normalization(node: OperatorNode) -> Factors:
    """By batch, by channel with the statistics, and by place."""
    dims = node.inputs[0] or ()
    if node.int_of("training_mode"):
        return Factors(())
    found = []
    for axis in range(len(dims)):
        others = {index: Axis(0) for index in range(1, 5)} if axis == 1 else {}
        if fixed(dims[axis]) != 1:
            found.append(Factor({0: Axis(axis), **others}, {0: Axis(axis)}))
    return Factors(found)


@factors_of("InstanceNormalization")
def instance_normalization(node: OperatorNode) -> Factors:
    """By batch, and by channel with scale and bias."""
    return Factors(
        [
            Factor({0: Axis(0)}, {0: Axis(0)}),
            Factor({0: Axis(1), 1: Axis(0), 2: Axis(0)}, {0: Axis(1)}),
        ]
    )
