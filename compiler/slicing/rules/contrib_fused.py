"""Rules of onnxruntime's fused operators: split as the ONNX operators that they are made of."""

from __future__ import annotations

import math

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors, factor
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split
from .contraction import batch_axes, gemm
from .registry import factors_of
from .sliding import by_window, own_rows


@factors_of(
    "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"
)
def skip_normalization(node: OperatorNode) -> Factors:
    """Whole along the last axis; the skipped value may be broadcast."""
    dims, skip = node.inputs[0] or (), node.inputs[1] or ()
    found = []
    for axis, dim in enumerate(dims[:-1]):
        own = axis - len(dims) + len(skip)
        inputs = {0: Axis(axis)}
        if own >= 0 and skip[own] == dim:
            inputs[1] = Axis(own)
        outputs = {i: Axis(axis) for i, one in enumerate(node.outputs) if one is not None}
        found.append(Factor(inputs, outputs))
    return Factors(found)


@factors_of("com.microsoft::EmbedLayerNormalization")
def embed_normalization(node: OperatorNode) -> Factors:
    """By batch, and by place in the sequence where the positions are given."""
    found = [_embedded_axis(node, 0)]
    if node.has_input(8):
        found.append(_embedded_axis(node, 1))
    return Factors(found)


def _embedded_axis(node: OperatorNode, axis: int) -> Factor:
    """One axis of the ids; the mask's number for each sequence needs the whole sequence."""
    ids = node.inputs[0] or ()
    inputs = {}
    for index in (0, 1, 7, 8):
        dims = node.inputs[index] if node.has_input(index) else None
        if dims is not None and dims[axis] == ids[axis]:
            inputs[index] = Axis(axis)
    kept = (0, 1, 2) if axis == 0 else (0, 2)
    there = [i for i, dims in enumerate(node.outputs) if dims is not None]
    if axis == 1 and 1 in there:
        return Factor({}, {})
    return Factor(inputs, {i: Axis(axis) for i in kept if i in there})


@factors_of("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def fused_matmul(node: OperatorNode) -> Factors:
    """As MatMul; each matrix may be transposed."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    if a is None or b is None or out is None or min(len(a), len(b)) < 2:
        return Factors(())
    first, second = node.int_of("transA"), node.int_of("transB")
    last = len(out) - 1
    factors = batch_axes(node, last - 1)
    factors.append(factor({0: len(a) - (1 if first else 2)}, {0: last - 1}))
    factors.append(factor({1: len(b) - (2 if second else 1)}, {0: last}))
    between = {0: len(a) - (2 if first else 1), 1: len(b) - (1 if second else 2)}
    factors.append(factor(between, {}, "sum"))
    return Factors(factors, [(0,), (1,)])


@factors_of("com.microsoft::FusedGemm")
def fused_gemm(node: OperatorNode) -> Factors:
    """As Gemm, except that terms must be summed before the activation."""
    return Factors([one for one in gemm(node).factors if not one.reduction])


def fewer_groups(local: LocalNode) -> None:
    """Count the groups of this rank's channels; of rows, pad those at the ends of the image."""
    own_rows(local)
    out = local.strategy.outputs[0]
    groups = local.source.int_of("group", 1)
    if groups > 1 and isinstance(out, Split) and out.axis == 1:
        local.set("group", groups * out.size(local.rank) // out.length)


@factors_of("com.microsoft::FusedConv", localise=fewer_groups, others=by_window)
def fused_conv(node: OperatorNode) -> Factors:
    """By batch, by output channel or by group, and by rows; terms must be summed before the
    activation.
    """
    return Factors(channel_factors(node, weight=1, along=(2,), like_output=(3,)))


def channel_factors(
    node: OperatorNode, weight: int, along: tuple[int, ...], like_output: tuple[int, ...] = ()
) -> list[Factor]:
    """The batch and the output channels of a convolution whose data is input 0.

    Inputs in `along` have an element for each output channel, or one for all. Of a convolution in
    groups, a step is a group.
    """
    data, weights, out = node.inputs[0], node.inputs[weight], node.outputs[0]
    if data is None or weights is None or out is None:
        return []
    groups, channels = node.int_of("group", 1), fixed(weights[0])
    count = fixed(data[1])
    if not channels or not count:
        return []
    unit = channels // groups if groups > 1 else 1
    inputs = {weight: Axis(0, unit)}
    if groups > 1:
        inputs[0] = Axis(1, count // groups)
    for index in along:
        dims = node.inputs[index] if node.has_input(index) else None
        if dims and math.prod(fixed(dim) or 0 for dim in dims) == channels > 1:
            inputs[index] = Axis(0, unit)
    whole = {i: Axis(0) for i in like_output if node.has_input(i)}
    inputs |= {i: Axis(1, unit) for i in whole}
    return [Factor({0: Axis(0), **whole}, {0: Axis(0)}), Factor(inputs, {0: Axis(1, unit)})]
