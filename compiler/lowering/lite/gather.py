"""Elements picked and put by indices in .ms files: as MindIR's primitives, with axes as inputs."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import INT64, Builder, OnnxTensor, Value, integer, integers, lowers
from .results import as_mindir, kept
from .shape import numbers


@lowers("Lite.Gather")
def gather(b: Builder, x: Value, indices: Value, axis: Value = 0) -> Value:
    """ONNX's Gather."""
    at = integer(axis, "the axis")
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray):
        return x.take(indices, at)
    return b.op("Gather", b.tensor(x), b.tensor(indices), axis=at)


@lowers("Lite.EmbeddingLookupFusion")
def embedding_lookup(b: Builder, *inputs: Value, max_norm: float) -> Value:
    """Rows of tables, which together are one; none is longer than max_norm, where that is given."""
    *tables, indices = inputs
    rows = [b.tensor(one) for one in tables]
    table = rows[0] if len(rows) == 1 else b.op("Concat", *rows, axis=0)
    found = b.op("Gather", table, b.tensor(indices), axis=0)
    if not max_norm:
        return found
    length = b.op("ReduceL2", found, (-1,), keepdims=1)
    return b.op("Mul", found, b.op("Min", b.op("Div", max_norm, length), 1.0))


@lowers("Lite.ReverseV2")
def reversed_along(b: Builder, x: Value, *, axis: Value) -> Value:
    """MindIR's ReverseV2."""
    return as_mindir(b, "ReverseV2", x, axis)


@lowers("Lite.ScatterNd")
def scatter_nd(b: Builder, indices: Value, updates: Value, shape: Value) -> Value:
    """MindIR's ScatterNd: updates that meet are added."""
    return as_mindir(b, "ScatterNd", indices, updates, numbers(shape, "the shape"))


@lowers("Lite.ScatterNdUpdate")
def scatter_nd_update(b: Builder, x: Value, indices: Value, updates: Value) -> Value:
    """ONNX's ScatterND."""
    return as_mindir(b, "TensorScatterUpdate", x, indices, updates)


@lowers("Lite.ScatterElements")
def scatter_elements(b: Builder, x: Value, indices: Value, updates: Value, *, axis: int) -> Value:
    """ONNX's ScatterElements."""
    return as_mindir(b, "TensorScatterElements", x, indices, updates, axis)


@lowers("Lite.SparseToDense")
def sparse_to_dense(
    b: Builder, indices: Value, shape: Value, values: Value, default: Value
) -> Value:
    """A tensor of one value, but for some elements."""
    sizes = b.cast(b.tensor(numbers(shape, "the shape")), INT64)
    whole = b.op("Expand", b.op("Reshape", b.tensor(default), ()), sizes)
    at = b.cast(indices, INT64)
    if at.shape is None or len(at.shape) < 2:
        at = b.op("Reshape", at, (-1, 1))
    value = b.op("Expand", b.tensor(values), b.op("Shape", at, end=-1))
    return b.op("ScatterND", whole, at, value)


@lowers("Lite.Where")
def where(b: Builder, condition: Value, yes: Value = None, no: Value = None) -> Value:
    """A choice of two values, or the places of what is true, a row for each."""
    if yes is not None and no is not None:
        return as_mindir(b, "Select", condition, yes, no)
    return as_mindir(b, "NonZero", condition)


@lowers("Lite.NonZero")
def non_zero(b: Builder, x: Value) -> Value:
    """ONNX's NonZero: a row for each axis."""
    return b.op("NonZero", b.tensor(x))


@lowers("Lite.SparseSegmentSum")
def sparse_segment_sum(b: Builder, x: Value, indices: Value, segments: Value) -> Value:
    """MindIR's SegmentSum of picked rows."""
    rows = b.op("Gather", b.tensor(x), b.tensor(indices), axis=0)
    return as_mindir(b, "SegmentSum", rows, segments)


@lowers("Lite.UnsortedSegmentSum")
def unsorted_segment_sum(b: Builder, x: Value, segments: Value, count: Value) -> Value:
    """MindIR's UnsortedSegmentSum."""
    number = count if isinstance(count, OnnxTensor) else integer(count, "the number of segments")
    return as_mindir(b, "UnsortedSegmentSum", x, segments, number)


@lowers("Lite.Splice")
def splice(
    b: Builder, x: Value, *, context: Value, forward_indexes: Value, output_dim: int
) -> Value:
    """Frames [batch, time, features] with their neighbours, as Kaldi has it."""
    tensor = b.tensor(x)
    rows = np.asarray(forward_indexes, np.int64).reshape(-1, max(len(context), 1))
    found = b.op("Gather", tensor, rows.reshape(-1), axis=1)
    return b.op("Reshape", found, (0, len(rows), output_dim))


@lowers("Lite.NonMaxSuppression")
def non_max_suppression(
    b: Builder, boxes: Value, scores: Value, *limits: Value, center_point_box: int
) -> Value:
    """ONNX's NonMaxSuppression: rows of (batch, class, box)."""
    taken = [b.op("Reshape", b.tensor(one), (1,)) for one in limits]
    taken[:1] = [b.cast(one, INT64) for one in taken[:1]]
    return b.op(
        "NonMaxSuppression",
        b.tensor(boxes),
        b.tensor(scores),
        *taken,
        center_point_box=center_point_box,
        type=TensorType(INT64, (-1, 3)),
    )


@lowers("Lite.SparseReshape")
def sparse_reshape(b: Builder, indices: Value, shape: Value, target: Value) -> Value:
    """(the indices of a sparse tensor in another shape, that shape); one size may be -1."""
    old, new = integers(shape, "the shape"), integers(target, "the new shape")
    count = int(np.prod(old))
    if new.count(-1) > 1 or count % max(1, -int(np.prod(new)) if -1 in new else count):
        raise ValueError(f"{list(old)} cannot become {list(new)}")
    sizes = [-count // int(np.prod(new)) if size == -1 else size for size in new]
    steps = np.cumprod([1, *old[:0:-1]])[::-1].astype(np.int64)
    flat = b.op("MatMul", b.cast(indices, INT64), steps.reshape(-1, 1).copy())
    ways = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64).copy()
    found = b.op("Mod", b.op("Div", flat, ways), np.asarray(sizes, np.int64))
    return kept(b, (found, np.asarray(sizes, np.int32)))
