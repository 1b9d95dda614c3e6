"""View rules: split operators that give the elements another shape or order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors, factor
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import WHOLE, Partial, Placement, Split, Windows
from .digits import reshaped
from .registry import always, factors_of, strategies_of
from .shared_heads import repeated_heads, take_own_heads

_PASSING = ([(0,)], ("sum", "max"))
"""Linear in input 0: a term of a sum or of a maximum is passed on."""


@factors_of("Transpose", shares=always)
def transpose(node: OperatorNode) -> Factors:
    """Every axis of the input is one of the output."""
    count = len(node.inputs[0] or ())
    order = node.ints_of("perm") or tuple(reversed(range(count)))
    return Factors([factor({0: axis}, {0: place}) for place, axis in enumerate(order)], *_PASSING)


def _reshape_target(local: LocalNode) -> None:
    """Ask for the local size of the split axis.

    A 0 in the target copies the size of the input's axis in the same place. Where that axis is
    split, the size is written out, unless it is the axis that is split in the output, too.
    """
    before, after = local.strategy.inputs[0], local.source.outputs[0]
    sizes = local.local_sizes(local.strategy.outputs[0])
    if not sizes or not isinstance(before, Split | Windows) or after is None:
        return
    if before.axis < len(after) and not local.source.int_of("allowzero"):
        size = fixed(after[before.axis])
        if size is not None:
            sizes.setdefault(before.axis, size)
    local.set_sizes(1, sizes | take_own_heads(local))


def _squeezed_axes(local: LocalNode) -> None:
    """Name the axes: the part of a split axis may have one element, too."""
    dims = local.source.inputs[0]
    if local.node.op_type != "Squeeze" or local.source.has_input(1) or dims is None:
        return
    axes = [axis for axis, dim in enumerate(dims) if fixed(dim) == 1]
    local.node.resize_inputs(2)
    local.set_constant(1, np.array(axes, np.int64))


def _linear(node: OperatorNode, placement: Partial) -> Strategy:
    return node.strategy({0: placement}, {0: placement})


@strategies_of("Reshape", localise=_reshape_target, shares=always)
def reshape(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """A split axis keeps its digit; see digits.py."""
    before, after = node.inputs[0], node.outputs[0]
    if before is None or after is None or (operand.index and not operand.is_output):
        return
    if isinstance(placement, Partial):
        yield _linear(node, placement)
    elif isinstance(placement, Split):
        shapes = (after, before) if operand.is_output else (before, after)
        other = reshaped(*shapes, placement)
        if other is not None:
            own, found = (other, placement) if operand.is_output else (placement, other)
            yield node.strategy({0: own}, {0: found})
        elif operand.is_output:
            yield from repeated_heads(node, placement)


@strategies_of("Flatten", "Squeeze", "Unsqueeze", localise=_squeezed_axes, shares=always)
def flatten(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """As Reshape, without a target."""
    yield from reshape(node, operand, placement)


def _expand_target(local: LocalNode) -> None:
    sizes = local.local_sizes(local.strategy.outputs[0])
    if sizes:
        known = local.source.constants.get(1)
        missing = len(local.source.outputs[0] or ()) - (
            len(known) if known is not None else fixed((local.source.inputs[1] or ((0,),))[0]) or 0
        )
        kept = {axis - missing: size for axis, size in sizes.items() if axis >= missing}
        if kept:
            local.set_sizes(1, kept)


@factors_of("Expand", localise=_expand_target, shares=always)
def expand(node: OperatorNode) -> Factors:
    """Axes that are repeated may be split while the input is whole.

    Those of other sizes, which depend on the data, may not.
    """
    before, after = node.inputs[0], node.outputs[0]
    if before is None or after is None:
        return Factors(())
    found = []
    for axis, dim in enumerate(after):
        own = axis - len(after) + len(before)
        size = before[own] if own >= 0 else None
        if size is None or size == dim or fixed(size) == 1:
            inputs = {0: Axis(own)} if size == dim else {}
            found.append(Factor(inputs, {0: Axis(axis)}))
    return Factors(found, *_PASSING)


def _filled_shape(local: LocalNode) -> None:
    sizes = local.local_sizes(local.strategy.outputs[0])
    if sizes:
        local.set_sizes(0, sizes)


@factors_of("ConstantOfShape", localise=_filled_shape)
def constant_of_shape(node: OperatorNode) -> Factors:
    """Any axis."""
    out = node.outputs[0] or ()
    return Factors([Factor({}, {0: Axis(axis)}) for axis in range(len(out))])


def _whole_shape(local: LocalNode) -> None:
    """Let Shape and Size of a split value give the sizes of the whole value."""
    placement = local.strategy.inputs[0]
    if not isinstance(placement, Split | Windows):
        return
    length = fixed((local.source.inputs[0] or ())[placement.axis]) or 0
    if local.node.op_type == "Size":
        local.after("Mul", [local.constant(np.array(length, np.int64))])
        local.after("Div", [local.constant(np.array(placement.size(local.rank), np.int64))])
        return
    count = len(local.source.inputs[0] or ())
    start, end, _ = slice(local.source.int_of("start"), local.source.int_of("end", count)).indices(
        count
    )
    if start <= placement.axis < end:
        place = local.constant(np.array([placement.axis - start], np.int64))
        whole = local.constant(np.array([length], np.int64))
        local.after("ScatterElements", [place, whole])


@strategies_of("Shape", "Size", localise=_whole_shape)
def shape(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """The sizes are those of the whole value, however it is held."""
    if not operand.is_output:
        yield Strategy((placement,), (WHOLE,))
