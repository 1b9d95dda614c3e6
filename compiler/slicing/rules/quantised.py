"""Quantisation rules: scales and zero points go along with the axes that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ...source_graph.dims import Dims, fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.operator_node import OperatorNode
from .contraction import projects
from .contrib_fused import channel_factors, fewer_groups
from .elementwise import broadcast_factors
from .normalisation import axes_apart
from .registry import always, factors_of
from .sliding import by_window


def parameter_dims(node: OperatorNode, index: int) -> Dims | None:
    """The dimensions of an optional input; None for one that is missing."""
    return node.inputs[index] if node.has_input(index) else None


def elements(dims: Dims) -> int:
    """The number of elements; 0 where it is open."""
    count = 1
    for dim in dims:
        count *= fixed(dim) or 0
    return count


@factors_of(
    "QuantizeLinear",
    "DequantizeLinear",
    "com.microsoft::QuantizeLinear",
    "com.microsoft::DequantizeLinear",
    shares=always,
)
def linear_quantization(node: OperatorNode) -> Factors:
    """One scale for all elements, for each place of an axis, or for each block of an axis.

    Integers without a zero point may be terms.
    """
    dims, scale = node.inputs[0] or (), node.inputs[1] or ()
    found = []
    for axis in range(len(dims)):
        steps = _scale_axis(node, dims, scale, axis)
        if steps is None:
            continue
        inputs, unit = {0: Axis(axis, steps[1])}, steps[1]
        if steps[0] >= 0:
            inputs |= {i: Axis(steps[0]) for i in (1, 2) if node.has_input(i)}
        found.append(Factor(inputs, {0: Axis(axis, unit)}))
    terms = node.node.op_type == "DequantizeLinear" and node.input_type(0) == ir.DataType.INT32
    return Factors(found, [(0,)] if terms and not node.has_input(2) else ())


def _scale_axis(node: OperatorNode, dims: Dims, scale: Dims, axis: int) -> tuple[int, int] | None:
    """The axis of the scales that belongs to one of the data (-1: none), and the size of a step.

    None where the axis cannot be split: its last block is shorter.
    """
    if elements(scale) == 1:
        return -1, 1
    own = node.axis_of(1)
    if len(scale) < len(dims):
        return (0 if axis == own else -1), 1
    if axis != own:
        return axis, 1
    block, length = node.int_of("block_size"), fixed(dims[axis])
    return (axis, block) if block and length and length % block == 0 else None


def matrix_factors(
    node: OperatorNode, a: int, b: int, columns: Sequence[int], reduction: str = ""
) -> list[Factor]:
    """Rows of input `a`, columns of input `b`, and with `reduction` the axis between them.

    Inputs in `columns` have one element, or one for each column.
    """
    first, second, out = node.inputs[a], node.inputs[b], node.outputs[0]
    if first is None or second is None or out is None or min(len(first), len(second)) < 2:
        return []
    swapped_a, swapped_b = node.int_of("transA"), node.int_of("transB")
    found = []
    for axis in range(len(out) - 2):
        inputs = {}
        for index, operand in ((a, first), (b, second)):
            own = axis - len(out) + len(operand)
            if own >= 0 and operand[own] == out[axis] and fixed(out[axis]) != 1:
                inputs[index] = Axis(own)
        found.append(Factor(inputs, {0: Axis(axis)}))
    rows = {a: Axis(len(first) - (1 if swapped_a else 2))}
    found.append(Factor(rows, {0: Axis(len(out) - 2)}))
    many = fixed(out[-1]) or 0
    along = {b: Axis(len(second) - (2 if swapped_b else 1))}
    for index in columns:
        dims = parameter_dims(node, index)
        if dims is not None and elements(dims) == many > 1:
            along[index] = Axis(len(dims) - 1)
    found.append(Factor(along, {0: Axis(len(out) - 1)}))
    if reduction:
        between = {a: len(first) - (2 if swapped_a else 1), b: len(second) - 1 - (not swapped_b)}
        found.append(Factor({i: Axis(axis) for i, axis in between.items()}, {}, reduction))
    return found


def _one_each(node: OperatorNode, positions: Sequence[int]) -> bool:
    """Whether inputs have one element, where they are there."""
    found = [parameter_dims(node, index) for index in positions]
    return all(dims is None or elements(dims) == 1 for dims in found)


@factors_of("MatMulInteger", shares=projects)
def integer_matmul(node: OperatorNode) -> Factors:
    """As MatMul: the sum of 32-bit integers is exact."""
    return Factors(matrix_factors(node, 0, 1, (3,), "sum") if _one_each(node, (2,)) else ())


@factors_of("QLinearMatMul")
def requantised_matmul(node: OperatorNode) -> Factors:
    """By rows and columns: terms must be summed before they are rounded."""
    return Factors(matrix_factors(node, 0, 3, (4, 5)) if _one_each(node, (1, 2, 6, 7)) else ())


@factors_of("com.microsoft::QGemm")
def requantised_gemm(node: OperatorNode) -> Factors:
    """By columns; the bias goes along."""
    found = matrix_factors(node, 0, 3, (4, 5, 6))
    bias = parameter_dims(node, 6)
    plain = bias is None or len(bias) == 1 and elements(bias) > 1
    return Factors(found[-1:] if plain and _one_each(node, (1, 2, 7, 8)) else ())


@factors_of("com.microsoft::DynamicQuantizeMatMul", shares=projects)
def dynamic_matmul(node: OperatorNode) -> Factors:
    """By columns: the scale of the first input comes from all its elements."""
    return Factors(matrix_factors(node, 0, 1, (2, 3, 4))[-1:])


@factors_of("com.microsoft::MatMulIntegerToFloat", shares=projects)
def scaled_matmul(node: OperatorNode) -> Factors:
    """By rows and columns, and without a bias along the axis between them."""
    reduction = "" if node.has_input(6) else "sum"
    found = matrix_factors(node, 0, 1, (3, 5, 6), reduction)
    return Factors(found if _one_each(node, (2, 4)) else ())


@factors_of("ConvInteger", localise=fewer_groups, others=by_window)
def integer_convolution(node: OperatorNode) -> Factors:
    """By batch, output channel and rows; by input channel, too, where there is one group."""
    found = channel_factors(node, weight=1, along=(3,))
    if node.int_of("group", 1) == 1:
        found.append(Factor({0: Axis(1), 1: Axis(1)}, {}, "sum"))
    return Factors(found if _one_each(node, (2,)) else ())


@factors_of("QLinearConv", localise=fewer_groups, others=by_window)
def requantised_convolution(node: OperatorNode) -> Factors:
    """By batch, output channel and rows of the image."""
    return Factors(channel_factors(node, weight=3, along=(4, 5, 8)))


@factors_of(
    *(f"com.microsoft::QLinear{name}" for name in ("Add", "Mul", "Where", "Sigmoid", "LeakyRelu"))
)
def requantised_elementwise(node: OperatorNode) -> Factors:
    """Any axis; scales and zero points are single numbers."""
    return broadcast_factors(node)


@factors_of("com.microsoft::QLinearSoftmax")
def requantised_softmax(node: OperatorNode) -> Factors:
    """Whole along its axis; before opset 13 along all axes from it on."""
    axis, count = node.axis_of(-1), len(node.inputs[0] or ())
    return axes_apart(node, range(axis, count) if node.int_of("opset", 13) < 13 else [axis])


@factors_of("com.microsoft::QLinearGlobalAveragePool", "com.microsoft::QLinearAveragePool")
def requantised_pool(node: OperatorNode) -> Factors:
    """By batch and by channel."""
    last = node.int_of("channels_last")
    return Factors(() if last else [Factor({0: Axis(a)}, {0: Axis(a)}) for a in (0, 1)])


@factors_of("com.microsoft::QLinearConcat")
def requantised_concat(node: OperatorNode) -> Factors:
    """Whole along the joined axis."""
    out = node.outputs[0] or ()
    parts = range(2, len(node.inputs), 3)
    return Factors(
        [
            Factor(dict.fromkeys(parts, Axis(axis)), {0: Axis(axis)})
            for axis in range(len(out))
            if axis != node.axis_of(0, len(out))
        ]
    )
