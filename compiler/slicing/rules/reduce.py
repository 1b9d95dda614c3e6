"""Reduction rules: over a split axis, the result of each rank is a term."""

from __future__ import annotations

import numpy as np

from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split
from .registry import always, factors_of


def reduced_axes(node: OperatorNode) -> set[int] | None:
    """The axes that are reduced; None where they are computed."""
    count = len(node.inputs[0] or ())
    given = node.ints_of("axes")
    if given is None and len(node.inputs) > 1 and node.node.inputs[1] is not None:
        if 1 not in node.constants:
            return None
        given = tuple(int(axis) for axis in node.constants[1].flat)
    if not given:
        return set() if node.int_of("noop_with_empty_axes") else set(range(count))
    return {axis % count for axis in given}


def reduction_factors(node: OperatorNode, reduction: str, linear: bool = True) -> Factors:
    """A factor for each axis; one that is reduced gives a Partial, or none without `reduction`.

    Terms of that reduction pass where the node is `linear`.
    """
    axes = reduced_axes(node)
    dims = node.inputs[0]
    if axes is None or dims is None:
        return Factors(())
    keep = node.int_of("keepdims", 1)
    found, place = [], 0
    for axis in range(len(dims)):
        if axis not in axes:
            found.append(Factor({0: Axis(axis)}, {0: Axis(place)}))
        elif reduction:
            found.append(Factor({0: Axis(axis)}, {}, reduction))
        place += axis not in axes or bool(keep)
    return Factors(found, [(0,)] if reduction and linear else [], (reduction,))


@factors_of("ReduceSum", shares=always)
def reduce_sum(node: OperatorNode) -> Factors:
    """The sum of sums."""
    return reduction_factors(node, "sum")


@factors_of("ReduceMax")
def reduce_max(node: OperatorNode) -> Factors:
    """The maximum of maxima."""
    return reduction_factors(node, "max")


def _own_weight(local: LocalNode) -> None:
    """Weigh the mean of a part by the part's share of the axis."""
    placement = local.strategy.inputs[0]
    axes = reduced_axes(local.source)
    if isinstance(placement, Split) and axes and placement.axis in axes:
        weigh(local, placement)


def weigh(local: LocalNode, placement: Split) -> None:
    """Multiply the result of a part by the part's share of the axis."""
    share = placement.size(local.rank) / placement.length
    dtype = local.node.outputs[0].dtype
    assert dtype is not None
    local.after("Mul", [local.constant(np.array(share, dtype.numpy()))])


@factors_of("ReduceMean", localise=_own_weight, shares=always)
def reduce_mean(node: OperatorNode) -> Factors:
    """The sum of means, each weighed by its share; means of integers are rounded."""
    dtype = node.input_type(0)
    exact = dtype is not None and dtype.is_floating_point()
    return reduction_factors(node, "sum" if exact else "")


@factors_of("ReduceL1", "ReduceSumSquare", shares=always)
def sums_of_terms(node: OperatorNode) -> Factors:
    """The sum of sums, of terms that are not linear."""
    return reduction_factors(node, "sum", linear=False)


@factors_of("ReduceProd", "ReduceMin", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", shares=always)
def other_reductions(node: OperatorNode) -> Factors:
    """Over whole axes only."""
    return reduction_factors(node, "")


@factors_of("ArgMax", "ArgMin")
def arguments(node: OperatorNode) -> Factors:
    """Over whole axes only: the index counts the whole axis."""
    dims = node.inputs[0] or ()
    axis = node.axis_of()
    keep = node.int_of("keepdims", 1)
    return Factors(
        [
            Factor({0: Axis(a)}, {0: Axis(a if keep or a < axis else a - 1)})
            for a in range(len(dims))
            if a != axis
        ]
    )
