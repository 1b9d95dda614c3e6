"""Contraction rules: split products of matrices, which sum over an axis that both inputs have."""

from __future__ import annotations

import onnx_ir as ir

from ..graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors, factor
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial
from .registry import factors_of


def _batch(node: OperatorNode, count: int) -> list[Factor]:
    """The factors of the leading axes of the output, which are broadcast."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    assert a is not None and b is not None and out is not None
    found = []
    for axis in range(count):
        inputs = {}
        for index, dims in ((0, a), (1, b)):
            own = axis - len(out) + len(dims)
            if own >= 0 and fixed(dims[own]) == fixed(out[axis]) not in (None, 1):
                inputs[index] = own
        if inputs:
            found.append(factor(inputs, {0: axis}))
    return found


@factors_of("MatMul")
def matmul(node: OperatorNode) -> Factors:
    """Rows of the first, columns of the second, and the axis between them, which is summed."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    if a is None or b is None or out is None or len(a) < 2 or len(b) < 2:
        return Factors(())
    last = len(out) - 1
    factors = _batch(node, last - 1)
    factors.append(factor({0: len(a) - 2}, {0: last - 1}))
    factors.append(factor({1: len(b) - 1}, {0: last}))
    factors.append(factor({0: len(a) - 1, 1: len(b) - 2}, {}, "sum"))
    return Factors(factors, [(0,), (1,)])


def _bias_once(local: LocalNode) -> None:
    """Where a Gemm sums over ranks, only the first adds the bias."""
    if len(local.node.inputs) < 3 or local.node.inputs[2] is None or local.rank == 0:
        return
    if isinstance(local.strategy.outputs[0], Partial):
        local.node.attributes["beta"] = _zero("beta")


def _zero(name: str) -> ir.Attr:
    return ir.AttrFloat32(name, 0.0)


@factors_of("Gemm", localise=_bias_once)
def gemm(node: OperatorNode) -> Factors:
    """As MatMul of two matrices, each of which may be transposed, plus a bias."""
    a, b = node.int_of("transA"), node.int_of("transB")
    rows = {0: Axis(1 if a else 0)}
    columns = {1: Axis(0 if b else 1)}
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    out = node.outputs[0]
    if out is None:
        return Factors(())
    for axis, inputs in ((0, rows), (1, columns)):
        own = axis - 2 + len(bias or ())
        if bias and own >= 0 and bias[own] == out[axis]:
            inputs[2] = Axis(own)
    between = factor({0: 0 if a else 1, 1: 1 if b else 0}, {}, "sum")
    found = [Factor(rows, {0: Axis(0)}), Factor(columns, {0: Axis(1)}), between]
    return Factors(found, [] if bias is not None else [(0,), (1,)])


@factors_of("Einsum")
def einsum(node: OperatorNode) -> Factors:
    """A factor for each letter; letters that the output lacks are summed."""
    equation = node.text_of("equation").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    operands = terms.split(",")
    if "..." in equation or not arrow or any(len(set(term)) < len(term) for term in operands):
        return Factors(())
    found = []
    for letter in sorted(set(terms) - {","}):
        inputs = {i: term.index(letter) for i, term in enumerate(operands) if letter in term}
        if letter in result:
            found.append(factor(inputs, {0: result.index(letter)}))
        else:
            found.append(factor(inputs, {}, "sum"))
    return Factors(found, [(index,) for index in range(len(operands))])
