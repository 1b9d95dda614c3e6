"""Index rules: split operators that pick elements by their index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import SUM, WHOLE, Partial, Placement, Split
from .registry import strategies_of


def own_rows(local: LocalNode) -> None:
    """Look up the indices in this rank's part; those of other ranks give zeros.

    Negative indices count from the end of the whole axis.
    """
    data = local.strategy.inputs[0]
    axis = local.source.axis_of()
    if not isinstance(data, Split) or data.axis != axis:
        return
    dtype = local.input(1).dtype
    kind = np.int64 if dtype is None else dtype.numpy()

    def number(value: int) -> ir.Value:
        return local.constant(np.array(value, kind))

    start, stop = data.intervals(local.rank)[0]
    raw = local.input(1)
    wrapped = local.before(
        "Where",
        [
            local.before("Less", [raw, number(0)]),
            local.before("Add", [raw, number(data.length)]),
            raw,
        ],
    )
    own = local.before("Sub", [wrapped, number(start)])
    last = number(stop - start - 1)
    inside = local.before(
        "And",
        [
            local.before("GreaterOrEqual", [own, number(0)]),
            local.before("LessOrEqual", [own, last]),
        ],
    )
    clipped = local.before("Min", [local.before("Max", [own, number(0)]), last])
    local.node.replace_input_with(1, clipped)
    _zero_others(local, inside, axis)


def _zero_others(local: LocalNode, inside: ir.Value, axis: int) -> None:
    """Put zeros where `inside` is false, which has the shape of the indices."""
    dims, picked = local.source.inputs[0], local.source.inputs[1]
    assert dims is not None and picked is not None
    trailing = len(dims) - axis - 1
    mask = inside
    if trailing:
        axes = local.constant(np.arange(len(picked), len(picked) + trailing, dtype=np.int64))
        mask = local.before("Unsqueeze", [inside, axes])
    dtype = local.node.outputs[0].dtype
    assert dtype is not None
    zero = local.constant(np.zeros((), dtype.numpy()))
    local.select(mask, zero)


@strategies_of("Gather", localise=own_rows)
def gather(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """Axes of the data and of the indices appear in the output; rows of a part give a sum."""
    data, picked = node.inputs[0], node.inputs[1]
    if data is None or picked is None:
        return
    axis, many = node.axis_of(), len(picked)
    if isinstance(placement, Partial):
        if placement == SUM and (operand.is_output or operand.index == 0):
            yield node.strategy({0: SUM}, {0: SUM})
    elif isinstance(placement, Split):
        yield from _split(node, operand, placement, axis, many)


def _split(
    node: OperatorNode, operand: NodeOperand, placement: Split, axis: int, many: int
) -> Iterator[Strategy]:
    own = placement.axis
    if operand.is_output:
        if axis <= own < axis + many:
            yield node.strategy({1: placement.at(own - axis)}, {0: placement})
        else:
            data = placement.at(own if own < axis else own - many + 1)
            yield node.strategy({0: data}, {0: placement})
    elif operand.index == 1:
        yield node.strategy({1: placement}, {0: placement.at(own + axis)})
    elif own != axis:
        out = placement.at(own if own < axis else own + many - 1)
        yield node.strategy({0: placement}, {0: out})
    elif placement.ratios == (1,) and _is_number(node):
        yield node.strategy({0: placement}, {0: SUM})


def _is_number(node: OperatorNode) -> bool:
    """Whether the data are numbers, which add up with zeros of other ranks."""
    data = node.node.inputs[0]
    return data is not None and data.dtype is not None and data.dtype.is_floating_point()


@strategies_of("OneHot")
def one_hot(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """The axes of the indices."""
    out = node.outputs[0]
    if not isinstance(placement, Split) or out is None or (operand.index and not operand.is_output):
        return
    axis = node.axis_of(-1, len(out))
    if operand.is_output:
        if placement.axis != axis:
            own = placement.at(placement.axis - (placement.axis > axis))
            yield Strategy((own, WHOLE, WHOLE), (placement,))
    else:
        after = placement.at(placement.axis + (placement.axis >= axis))
        yield Strategy((placement, WHOLE, WHOLE), (after,))
