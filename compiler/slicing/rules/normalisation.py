"""Normalisation rules: split softmax, normalisation, sorting and running sums, along other axes."""

from __future__ import annotations

from collections.abc import Iterable

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split
from .registry import always, factors_of


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
    """Whole along its axis."""
    return axes_apart(node, [node.axis_of(-1)])


@factors_of("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", shares=always)
def layer_normalization(node: OperatorNode) -> Factors:
    """Whole along the axes from `axis` on; its statistics have size 1 there."""
    count = len(node.inputs[0] or ())
    first = node.axis_of(-1)
    if any(len(dims or ()) > count - first for dims in node.inputs[1:]):
        return Factors(())
    outputs = [index for index, dims in enumerate(node.outputs) if dims is not None]
    return axes_apart(node, range(first, count), outputs)


@factors_of("TopK", "LpNormalization")
def along_one_axis(node: OperatorNode) -> Factors:
    """Whole along one axis."""
    return axes_apart(node, [node.int_of("axis", -1)], range(len(node.outputs)))


@factors_of("CumSum", "CumProd")
def running_sum(node: OperatorNode) -> Factors:
    """Whole along its axis; the sum is linear."""
    if 1 not in node.constants:
        return Factors(())
    factors = axes_apart(node, [int(node.constants[1].flat[0])]).factors
    return Factors(factors, [(0,)] if node.node.op_type == "CumSum" else [])


@factors_of("BatchNormalization")
def batch_normalization(node: OperatorNode) -> Factors:
    """By batch, by channel with the statistics, and by place.

    In training mode the statistics are computed of all but the channels, and are outputs.
    """
    dims = node.inputs[0] or ()
    if node.int_of("training_mode"):
        channel = {index: Axis(0) for index in range(1, len(node.outputs))}
        inputs = {index: Axis(0) for index in range(1, 5)}
        return Factors([Factor({0: Axis(1), **inputs}, {0: Axis(1), **channel})])
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


def _own_number(local: LocalNode) -> None:
    """Count this rank's groups."""
    groups = local.source.int_of("num_groups")
    placement = local.strategy.inputs[0]
    if isinstance(placement, Split) and placement.axis == 1:
        local.set("num_groups", groups * placement.size(local.rank) // placement.length)


@factors_of("GroupNormalization", localise=_own_number)
def group_normalization(node: OperatorNode) -> Factors:
    """By batch, and by group, with scale and bias, of which each channel or group has one."""
    channels, scale = node.inputs[0] or (), node.inputs[1] or ()
    groups = node.int_of("num_groups")
    count, own = fixed(channels[1]), fixed(scale[0])
    batch = Factor({0: Axis(0)}, {0: Axis(0)})
    if not count or not own:
        return Factors([batch])
    unit = Axis(0, own // groups)
    return Factors(
        [
            batch,
            Factor({0: Axis(1, count // groups), 1: unit, 2: unit}, {0: Axis(1, count // groups)}),
        ]
    )


@factors_of("LRN")
def local_response(node: OperatorNode) -> Factors:
    """All axes but the channels."""
    return axes_apart(node, [1])


@factors_of("MeanVarianceNormalization")
def mean_variance(node: OperatorNode) -> Factors:
    """All axes but those of the mean."""
    return axes_apart(node, node.ints_of("axes") or (0, 2, 3))


@factors_of("DFT")
def fourier_transform(node: OperatorNode) -> Factors:
    """Whole along its axis, and along the last, of real and imaginary parts; linear.

    The axis is an input, and before opset 20 an attribute. Where it is missing, it is the last but
    one of opset 20, and was the second before.
    """
    axes = [-2, 1]
    if "axis" in node.node.attributes:
        axes = [node.int_of("axis")]
    elif node.has_input(2):
        axis = node.constants.get(2)
        if axis is None:
            return Factors(())
        axes = [int(axis.flat[0])]
    return Factors(axes_apart(node, [-1, *axes]).factors, [(0,)])
