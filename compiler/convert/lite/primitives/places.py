"""Places in .ms files: elements picked, put, sorted and found by indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....element_types.value_types import TensorType, TupleType
from ...mindir.values import MindirValue, ResultType
from .registry import numbers, translates

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes


@translates("Gather")
def gather(
    b: LiteNodes, kind: ResultType, x: MindirValue, indices: MindirValue, *rest: MindirValue
) -> MindirValue:
    """Slices along one axis."""
    axis, batch = rest
    if batch.constant:
        raise ValueError("batch_dims are not supported")
    return b.node("Gather", [x, indices, axis], kind)


@translates("GatherD")
def gather_elements(
    b: LiteNodes, kind: ResultType, x: MindirValue, axis: MindirValue, indices: MindirValue
) -> MindirValue:
    """Single elements along one axis."""
    return b.node("GatherD", [x, axis, indices], kind)


@translates("GatherNd")
def gather_nd(b: LiteNodes, kind: ResultType, x: MindirValue, at: MindirValue) -> MindirValue:
    """Slices by the indices of several axes."""
    return b.node("GatherNd", [x, at], kind)


@translates("TensorScatterUpdate", target="ScatterNdUpdate")
@translates("TensorScatterAdd", target="TensorScatterAdd")
def scattered(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    indices: MindirValue,
    updates: MindirValue,
    *,
    target: str,
) -> MindirValue:
    """Slices put at indices, or added."""
    return b.node(target, [x, indices, updates], kind)


@translates("TensorScatterElements")
def scattered_elements(
    b: LiteNodes, kind: ResultType, x: MindirValue, *inputs: MindirValue
) -> MindirValue:
    """Single elements put along one axis."""
    indices, updates, axis, reduction = inputs
    if reduction.constant not in (0, "none"):
        raise ValueError("a reduction is not supported")
    return b.node("ScatterElements", [x, indices, updates], kind, axis=axis.constant)


@translates("ReverseV2")
def reversed_along(
    b: LiteNodes, kind: ResultType, x: MindirValue, axes: MindirValue
) -> MindirValue:
    """Axes in reverse."""
    return b.node("ReverseV2", [x], kind, axis=list(numbers(axes, "the axes")))


@translates("TopK")
def top(
    b: LiteNodes, kind: ResultType, x: MindirValue, k: MindirValue, *, sorted: bool
) -> MindirValue:
    """The largest along the last axis, and their places."""
    assert isinstance(kind, TupleType) and kind.items
    given = {"sorted": sorted, "axis": x.rank - 1, "largest": 1}
    return b.several(b.nodes("TopKFusion", [x, k], kind.items, **given))


@translates("Argmax", target="ArgMaxFusion")
@translates("Argmin", target="ArgMinFusion")
def extreme(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    axis: MindirValue,
    dtype: MindirValue,
    *,
    target: str,
) -> MindirValue:
    """The place of the largest or smallest element."""
    return b.node(target, [x], kind, axis=axis.constant, top_k=1)


@translates("NonZero")
def non_zero(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """A row for each place, where .ms files have a column."""
    assert isinstance(kind, TensorType) and kind.shape
    columns = b.node("NonZero", [x], TensorType(kind.dtype, kind.shape[::-1]))
    return b.node("Transpose", [columns, np.asarray([1, 0], np.int32)], kind)


@translates("ReverseSequence")
def reverse_sequence(
    b: LiteNodes, kind: ResultType, *inputs: MindirValue, seq_dim: int, batch_dim: int
) -> MindirValue:
    """The first elements of each sequence in reverse."""
    return b.node("ReverseSequence", inputs, kind, seq_dim=seq_dim, batch_dim=batch_dim)


@translates("OneHot")
def one_hot(
    b: LiteNodes, kind: ResultType, indices: MindirValue, *rest: MindirValue
) -> MindirValue:
    """One value at the places of the indices, another elsewhere."""
    depth, on, off, axis = rest
    assert isinstance(kind, TensorType)
    values = [np.asarray(one.constant, kind.dtype) for one in (on, off)]
    return b.node("OneHot", [indices, depth, *values], kind, axis=axis.constant)
