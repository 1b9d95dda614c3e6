"""Contraction rules: split products of matrices, which sum over an axis that both inputs have."""

from __future__ import annotations

import string

import onnx_ir as ir

from ...source_graph.dims import Dims, fixed
from ..placement.factors import Axis, Factor, Factors, factor
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial
from .registry import factors_of


def batch_axes(node: OperatorNode, count: int) -> list[Factor]:
    """The factors of the leading axes of the output, which are broadcast."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    assert a is not None and b is not None and out is not None
    found = []
    for axis in range(count):
        owns = {index: axis - len(out) + len(dims) for index, dims in ((0, a), (1, b))}
        taken = {
            index: own for index, own in owns.items() if own >= 0 and fixed((a, b)[index][own]) != 1
        }
        sizes = {fixed((a, b)[index][own]) for index, own in taken.items()}
        if sizes == {fixed(out[axis])} and None not in sizes:
            found.append(factor(taken, {0: axis}))
    return found


def projects(node: OperatorNode) -> bool:
    """Whether a product is of a value and a weight."""
    return any(value is not None and value.is_initializer() for value in node.node.inputs[:2])


@factors_of("MatMul", shares=projects)
def matmul(node: OperatorNode) -> Factors:
    """Rows of the first, columns of the second, and the axis between them, which is summed."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    if not a or not b or out is None:
        return Factors(())
    if len(a) == 1 or len(b) == 1:
        return _vectors(a, b)
    last = len(out) - 1
    factors = batch_axes(node, last - 1)
    factors.append(factor({0: len(a) - 2}, {0: last - 1}))
    factors.append(factor({1: len(b) - 1}, {0: last}))
    factors.append(factor({0: len(a) - 1, 1: len(b) - 2}, {}, "sum"))
    return Factors(factors, [(0,), (1,)])


def _vectors(a: Dims, b: Dims) -> Factors:
    """The product of a vector and a matrix, or of two vectors: the vector's axis is summed."""
    between = factor({0: len(a) - 1, 1: max(len(b) - 2, 0)}, {}, "sum")
    rows = [factor({0: axis}, {0: axis}) for axis in range(len(a) - 1)]
    others = [axis for axis in range(len(b)) if axis != max(len(b) - 2, 0)]
    columns = [factor({1: axis}, {0: place}) for place, axis in enumerate(others)]
    return Factors([*rows, *columns, between], [(0,), (1,)])


def _bias_once(local: LocalNode) -> None:
    """Where a Gemm sums over ranks, only the first adds the bias."""
    if len(local.node.inputs) < 3 or local.node.inputs[2] is None or local.rank == 0:
        return
    if isinstance(local.strategy.outputs[0], Partial):
        local.node.attributes["beta"] = _zero("beta")


def _zero(name: str) -> ir.Attr:
    return ir.AttrFloat32(name, 0.0)


@factors_of("Gemm", localise=_bias_once, shares=projects)
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


def _letters(node: OperatorNode) -> tuple[list[str], str] | None:
    """The terms of an equation and its result, with a letter of its own for each axis of "...".

    None where there are more axes than letters.
    """
    text = node.text_of("equation").replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    free = [one for one in string.ascii_letters if one not in text]
    counts = [
        len(dims or ()) - len(term.replace("...", "")) if "..." in term else 0
        for term, dims in zip(terms, node.inputs, strict=True)
    ]
    most = max(counts)
    if most > len(free):
        return None
    if not arrow:
        once = sorted(one for one in set(left) - set(",.") if left.count(one) == 1)
        result = ("..." if "..." in left else "") + "".join(once)
    named = "".join(free[:most])
    full = [
        term.replace("...", named[most - count :])
        for term, count in zip(terms, counts, strict=True)
    ]
    return full, result.replace("...", named)


@factors_of("Einsum")
def einsum(node: OperatorNode) -> Factors:
    """A factor for each letter; letters that the output lacks are summed."""
    named = _letters(node)
    if named is None:
        return Factors(())
    terms, result = named
    found = []
    for letter in sorted(set("".join(terms))):
        inputs = {}
        for index, term in enumerate(terms):
            axis, dims = term.find(letter), node.inputs[index] or ()
            if axis >= 0 and fixed(dims[axis]) != 1:
                inputs[index] = axis
        if any(term.count(letter) > 1 for term in (*terms, result)):
            continue
        outputs = {0: result.index(letter)} if letter in result else {}
        found.append(factor(inputs, outputs, "" if outputs else "sum"))
    return Factors(found, [(index,) for index in range(len(terms))])
