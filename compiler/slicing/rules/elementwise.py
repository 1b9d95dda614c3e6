"""Elementwise rules: split operators whose inputs are broadcast to the shape of the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.operator_node import OperatorNode
from .registry import always, factors_of

_UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not
Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh
ThresholdedRelu Dropout com.microsoft::Gelu com.microsoft::FastGelu com.microsoft::QuickGelu
com.microsoft::BiasGelu com.microsoft::BiasAdd""".split()

_BROADCAST = """And BitShift BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterOrEqual Less
LessOrEqual Max Min Mod Or PRelu Pow Where Xor""".split()


def broadcast_factors(
    node: OperatorNode,
    linear: Sequence[tuple[int, ...]] = (),
    reductions: Sequence[str] = ("sum",),
) -> Factors:
    """A factor for each axis of the output; inputs of size 1 there do not take part.

    There is none where an input has another size than the output: it depends on the data, as the
    number of an expert's tokens does.
    """
    out = node.outputs[0]
    if out is None:
        return Factors(())
    found = []
    for axis, dim in enumerate(out):
        owns = [axis - len(out) + len(dims or ()) for dims in node.inputs]
        taken = {
            index: (Axis(own), dims[own])
            for index, (own, dims) in enumerate(zip(owns, node.inputs, strict=True))
            if dims is not None and own >= 0 and fixed(dims[own]) != 1
        }
        if fixed(dim) not in (None, 1) and all(size == dim for _, size in taken.values()):
            outputs = {i: Axis(axis) for i, dims in enumerate(node.outputs) if dims == out}
            inputs = {index: own for index, (own, _) in taken.items()}
            found.append(Factor(inputs, outputs))
    return Factors(found, linear, reductions)


@factors_of(*_UNARY, shares=always)
def unary(node: OperatorNode) -> Factors:
    """Of one input; further inputs (limits, ratios) are scalars."""
    return broadcast_factors(node)


@factors_of("Identity", shares=always)
def identity(node: OperatorNode) -> Factors:
    """Any term stays one."""
    return broadcast_factors(node, [(0,)], ("sum", "max"))


@factors_of("Neg", shares=always)
def negation(node: OperatorNode) -> Factors:
    """Linear."""
    return broadcast_factors(node, [(0,)])


@factors_of("Cast", shares=always)
def cast(node: OperatorNode) -> Factors:
    """Linear to floating point, where no term is truncated or wraps."""
    before, after = node.input_type(0), ir.DataType(node.int_of("to"))
    wide = before in (ir.DataType.INT32, ir.DataType.INT64)
    exact = before is not None and (wide or before.is_floating_point())
    return broadcast_factors(node, [(0,)] if exact and after.is_floating_point() else ())


@factors_of(*_BROADCAST, shares=always)
def broadcast(node: OperatorNode) -> Factors:
    """Of several inputs, linear in none."""
    return broadcast_factors(node)


@factors_of("Add", "Sub", "Sum", "Mean", shares=always)
def sums(node: OperatorNode) -> Factors:
    """Linear in all inputs together: terms on each rank add up."""
    return broadcast_factors(node, [tuple(range(len(node.inputs)))])


@factors_of("Mul", shares=always)
def products(node: OperatorNode) -> Factors:
    """Linear in each input, while the other is whole and finite: zero times infinity is NaN."""
    linear = [(one,) for one in (0, 1) if np.isfinite(node.constants.get(1 - one, 0.0)).all()]
    return broadcast_factors(node, linear)


@factors_of("Div", shares=always)
def quotients(node: OperatorNode) -> Factors:
    """Linear in the dividend."""
    dtype = node.input_type(0)
    exact = dtype is not None and dtype.is_floating_point()
    return broadcast_factors(node, [(0,)] if exact else ())
