"""Searches: elements that are not zero, masked or distinct, and places in sorted tensors."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    BOOL,
    END,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    common_dtype,
    flattened,
    integer,
    integers,
    lowers,
    number,
    where,
)
from .gather import index


@lowers("NonZero")
def non_zero(b: Builder, input: Value) -> Value:
    """[found, rank]: the places of the elements other than 0."""
    found = b.op("NonZero", b.cast(b.tensor(input), BOOL), type=TensorType(INT64, None))
    return b.op("Transpose", found, perm=[1, 0])


@lowers("NonZeroExt")
def non_zero_ext(b: Builder, input: Value) -> Value:
    """The places of the elements other than 0, one vector per axis."""
    x = b.tensor(input)
    found = b.op("NonZero", b.cast(x, BOOL), type=TensorType(INT64, None))
    parts = b.ops("Split", found, outputs=x.rank, axis=0, num_outputs=x.rank)
    return tuple(b.op("Squeeze", part, (0,)) for part in parts)


def _spread_out(b: Builder, x: OnnxTensor, mask: Value) -> tuple[OnnxTensor, OnnxTensor]:
    """x and a mask in their common shape."""
    mask = b.cast(b.tensor(mask), BOOL)
    wide = b.op("Expand", x, b.op("Shape", mask))
    return wide, b.op("Expand", mask, b.op("Shape", wide), type=TensorType(BOOL, None))


@lowers("MaskedSelect")
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    """The elements where the mask holds, as a vector."""
    wide, mask = _spread_out(b, b.tensor(input), mask)
    return b.op("Compress", wide, b.op("Reshape", mask, (-1,)))


@lowers("MaskedScatter")
def masked_scatter(b: Builder, x: Value, mask: Value, updates: Value) -> Value:
    """x with the first elements of the updates, in order, where the mask holds."""
    wide, mask = _spread_out(b, b.tensor(x), mask)
    flat = b.cast(b.op("Reshape", mask, (-1,)), INT64)
    order = b.op("Sub", b.op("CumSum", flat, np.asarray(0, np.int64)), 1)
    values = b.op("Gather", flattened(b, b.tensor(updates)), b.op("Max", order, 0), axis=0)
    return where(b, mask, b.op("Reshape", values, b.op("Shape", wide)), wide, wide.dtype)


@lowers("SearchSorted")
def search_sorted(
    b: Builder,
    sorted_sequence: Value,
    values: Value,
    sorter: Value = None,
    dtype: Value = None,
    right: Value = False,
) -> Value:
    """The place of each value in a sorted last axis; with `right`, behind equal elements."""
    if sorter is not None:
        raise ValueError("a sorter is not supported: sort the sequence first")
    wide = common_dtype(sorted_sequence, values)
    line = b.op("Unsqueeze", as_dtype(b, sorted_sequence, wide), (-2,))
    value = b.op("Unsqueeze", as_dtype(b, values, wide), (-1,))
    before = b.op("LessOrEqual" if right else "Less", line, value)
    return b.op("ReduceSum", b.cast(before, INT64), (-1,), keepdims=0)


@lowers("InTopK")
def in_top_k(b: Builder, x1: Value, x2: Value, *, k: int) -> Value:
    """Whether the element of each row that x2 names is among the k largest."""
    x = b.tensor(x1)
    own = b.op("GatherElements", x, b.op("Unsqueeze", index(b, x2), (1,)), axis=1)
    above = b.op("ReduceSum", b.cast(b.op("Greater", x, own), INT64), (1,), keepdims=0)
    return b.op("Less", above, number(k, "k"))


@lowers("UnravelIndex")
def unravel_index(b: Builder, indices: Value, dims_: Value) -> Value:
    """The coordinates of places in a flattened tensor of constant dimensions, one row per axis."""
    sizes, at = integers(dims_, "dims"), b.tensor(indices)
    rows = []
    for axis, size in enumerate(sizes):
        step = int(np.prod(sizes[axis + 1 :], dtype=np.int64))
        rows.append(b.op("Unsqueeze", b.op("Mod", b.op("Div", at, step), size), (0,)))
    return b.op("Concat", *rows, axis=0)


def _unique(b: Builder, x: OnnxTensor, ordered: bool) -> tuple[OnnxTensor, OnnxTensor, OnnxTensor]:
    """(the distinct elements, the one of them that each element is, how often each comes)."""
    kinds = [TensorType(x.dtype, (-1,)), *[TensorType(INT64, (-1,))] * 3]
    found = b.ops("Unique", flattened(b, x), outputs=4, types=kinds, sorted=int(ordered))
    return found[0], found[2], found[3]


@lowers("Unique")
def unique(b: Builder, x: Value) -> Value:
    """(the distinct elements in order of appearance, the one of them that each element is)."""
    return _unique(b, b.tensor(x), False)[:2]


@lowers("Unique2")
def unique_sorted(b: Builder, input: Value, *options: Value) -> Value:
    """(the distinct elements, sorted; the number of each element among them; the counts)."""
    x = b.tensor(input)
    y, inverse, counts = _unique(b, x, True)
    return y, b.op("Reshape", inverse, b.op("Shape", x)), counts


@lowers("UniqueConsecutive")
def unique_consecutive(
    b: Builder,
    input: Value,
    return_inverse: Value = False,
    return_counts: Value = False,
    dim: Value = None,
) -> Value:
    """(the elements without repetitions, the one of them that each element is, the repetitions)."""
    x = b.tensor(input)
    if dim is not None and x.rank != 1:
        raise ValueError("UniqueConsecutive along an axis is not supported")
    flat = flattened(b, x)
    same = b.op("Equal", b.op("Slice", flat, (1,), (END,)), b.op("Slice", flat, (0,), (-1,)))
    first = b.op("Concat", np.ones(1, np.bool_), b.op("Not", same), axis=0)
    inverse = b.op("Sub", b.op("CumSum", b.cast(first, INT64), np.asarray(0, np.int64)), 1)
    starts = b.op("Squeeze", b.op("NonZero", first, type=TensorType(INT64, None)), (0,))
    count = b.op("Reshape", b.op("Size", flat), (1,))
    ends = b.op("Concat", b.op("Slice", starts, (1,), (END,)), count, axis=0)
    return (
        b.op("Compress", flat, first),
        b.op("Reshape", inverse, b.op("Shape", x)) if return_inverse else None,
        b.op("Sub", ends, starts) if return_counts else None,
    )


@lowers("Take")
def take(b: Builder, input: Value, index_: Value) -> Value:
    """Elements by their places in the flattened tensor."""
    return b.op("Gather", flattened(b, b.tensor(input)), index(b, index_), axis=0)


@lowers("EmbeddingLookup")
def embedding_lookup(b: Builder, params: Value, indices: Value, offset: Value = 0) -> Value:
    """Rows of a part of a table that begins at an offset; zeros for those outside."""
    table, ids = b.tensor(params), b.cast(index(b, indices), INT64)
    ids = b.op("Sub", ids, integer(offset, "the offset"))
    count = b.op("Gather", b.op("Shape", table), np.asarray(0, np.int64))
    inside = b.op("And", b.op("GreaterOrEqual", ids, 0), b.op("Less", ids, count))
    rows = b.op("Gather", table, where(b, inside, ids, 0, INT64), axis=0)
    return where(b, b.op("Unsqueeze", inside, (-1,)), rows, 0, table.dtype)
