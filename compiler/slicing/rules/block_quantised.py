"""Rules of weights in blocks of a few bits: a block and its scale are never parted."""

from __future__ import annotations

import onnx_ir as ir

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial, Split, Windows
from .index import own_rows
from .quantised import parameter_dims
from .registry import always, factors_of


def _own_sizes(local: LocalNode) -> None:
    """State the sizes of this rank's weights; where ranks sum, only the first adds the bias."""
    data, out = local.strategy.inputs[0], local.strategy.outputs[0]
    last = len(local.source.inputs[0] or ()) - 1
    if isinstance(out, Split | Windows) and out.axis == last:
        local.set("N", out.size(local.rank))
    if isinstance(data, Split) and data.axis == last:
        local.set("K", data.size(local.rank))
    if isinstance(out, Partial) and local.rank and local.source.has_input(5):
        local.node.replace_input_with(5, None)


@factors_of("com.microsoft::MatMulNBits", localise=_own_sizes, shares=always)
def block_matmul(node: OperatorNode) -> Factors:
    """By columns, and by rows of whole blocks, whose products are summed."""
    data, weights = node.inputs[0] or (), node.inputs[1] or ()
    columns, rows = node.int_of("N"), node.int_of("K")
    if node.has_input(4) or len(weights) < 2 or fixed(weights[0]) != columns:
        return Factors(())
    last = len(data) - 1
    along = {1: Axis(0)}
    for index in (2, 3, 5):
        dims = parameter_dims(node, index)
        if dims is not None:
            along[index] = Axis(0, (fixed(dims[0]) or 0) // columns)
    found = [Factor({0: Axis(axis)}, {0: Axis(axis)}) for axis in range(last)]
    found.append(Factor(along, {0: Axis(last)}))
    block = node.int_of("block_size")
    between = _blocks(node, rows // block) if rows % block == 0 else None
    if between is not None:
        per_step = between[1].unit
        found.append(Factor({0: Axis(last, block * per_step), **between}, {}, "sum"))
    return Factors(found)


def _blocks(node: OperatorNode, count: int) -> dict[int, Axis] | None:
    """The axes that count blocks; a step has as many as share a byte of zero points.

    None where scales are in one row, or a byte of zero points is not full.
    """
    scales, zeros = parameter_dims(node, 2), parameter_dims(node, 3)
    if scales is None or len(scales) < 2:
        return None
    found, shared = {}, 1
    if zeros is not None:
        packed = node.input_type(3) == ir.DataType.UINT8
        shared = 8 // node.int_of("bits", 4) if packed else 1
        if count % shared or len(zeros) < 2:
            return None
        found[3] = Axis(1)
    return found | {1: Axis(1, shared), 2: Axis(1, shared)}


def _own_vocabulary(local: LocalNode) -> None:
    """Look up the rows of this rank, where the rows are split."""
    if isinstance(local.strategy.outputs[0], Partial):
        own_rows(local)


@factors_of("com.microsoft::GatherBlockQuantized", localise=_own_vocabulary)
def block_gather(node: OperatorNode) -> Factors:
    """By the axes of the indices, and by rows, which add up with zeros of other ranks."""
    data, picked = node.inputs[0] or (), node.inputs[1] or ()
    if node.int_of("gather_axis") or not node.int_of("quantize_axis", 1):
        return Factors(())
    found = [Factor({1: Axis(axis)}, {0: Axis(axis)}) for axis in range(len(picked))]
    tables = [index for index in (0, 2, 3) if node.has_input(index)]
    same = all(len(node.inputs[index] or ()) == len(data) for index in tables)
    if same and all((node.inputs[index] or ())[0] == data[0] for index in tables):
        found.append(Factor(dict.fromkeys(tables, Axis(0)), {}, "sum"))
    return Factors(found)
