"""Elements that are found: those that are not zero, masked ones, distinct ones, places in what is sorted."""

from __future__ import annotations

import numpy as np

from ..mindir.graph import TensorType
from .arguments import integer, integers, number
from .builder import Builder, Tensor, Value
from .gather import index
from .math import as_dtype, common_dtype, where
from .registry import lowers
from .shape import flattened

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)


@lowers("NonZero", "NonZeroExt")
def non_zero(b: Builder, input: Value) -> Value:
    """Where the elements other than 0 are, one row each; NonZeroExt: one vector per axis."""
    x = b.tensor(input)
    found = b.op("NonZero", b.cast(x, _BOOL), type=TensorType(_INT64, None))
    if b.node and b.node.primitive == "NonZero":
        return b.op("Transpose", found, perm=[1, 0])
    parts = b.op("Split", found, outputs=x.rank, axis=0, num_outputs=x.rank)
    return tuple(b.op("Squeeze", part, (0,)) for part in ((parts,) if x.rank == 1 else parts))


def _spread_out(b: Builder, x: Tensor, mask: Value) -> tuple[Tensor, Tensor]:
    """x and a mask in their common shape."""
    mask = b.cast(b.tensor(mask), _BOOL)
    wide = b.op("Expand", x, b.op("Shape", mask))
    return wide, b.op("Expand", mask, b.op("Shape", wide), type=TensorType(_BOOL, None))


@lowers("MaskedSelect")
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    """The elements where the mask holds, as a vector."""
    wide, mask = _spread_out(b, b.tensor(input), mask)
    return b.op("Compress", wide, b.op("Reshape", mask, (-1,)))


@lowers("MaskedScatter")
def masked_scatter(b: Builder, x: Value, mask: Value, updates: Value) -> Value:
    """x with the first elements of the updates, in order, where the mask holds."""
    wide, mask = _spread_out(b, b.tensor(x), mask)
    flat = b.cast(b.op("Reshape", mask, (-1,)), _INT64)
    order = b.op("Sub", b.op("CumSum", flat, np.asarray(0, np.int64)), 1)
    values = b.op("Gather", flattened(b, b.tensor(updates)), b.op("Max", order, 0), axis=0)
    return where(b, mask, b.op("Reshape", values, b.op("Shape", wide)), wide, wide.dtype)


@lowers("SearchSorted")
def search_sorted(b: Builder, sorted_sequence: Value, values: Value, sorter: Value = None, dtype: Value = None,
                  right: Value = False) -> Value:
    """How many elements of a sorted last axis come before each value; with `right`, equal ones too."""
    if sorter is not None:
        raise ValueError("a sorter is not supported: sort the sequence first")
    wide = common_dtype(sorted_sequence, values)
    line = b.op("Unsqueeze", as_dtype(b, sorted_sequence, wide), (-2,))
    value = b.op("Unsqueeze", as_dtype(b, values, wide), (-1,))
    before = b.op("LessOrEqual" if right else "Less", line, value)
    return b.op("ReduceSum", b.cast(before, _INT64), (-1,), keepdims=0)


@lowers("InTopK")
def in_top_k(b: Builder, x1: Value, x2: Value, *, k: int) -> Value:
    """Whether the element of each row that x2 names is among the k largest."""
    x = b.tensor(x1)
    own = b.op("GatherElements", x, b.op("Unsqueeze", index(b, x2), (1,)), axis=1)
    above = b.op("ReduceSum", b.cast(b.op("Greater", x, own), _INT64), (1,), keepdims=0)
    return b.op("Less", above, number(k, "k"))


@lowers("UnravelIndex")
def unravel_index(b: Builder, indices: Value, dims_: Value) -> Value:
    """The coordinates of places in a flattened tensor of constant dimensions, one row per axis."""
    sizes, at = integers(dims_, "dims"), b.tensor(indices)
    rows = []
    for axis, size in enumerate(sizes):
        step = int(np.prod(sizes[axis + 1:], dtype=np.int64))
        rows.append(b.op("Unsqueeze", b.op("Mod", b.op("Div", at, step), size), (0,)))
    return b.op("Concat", *rows, axis=0)


@lowers("Unique", "Unique2")
def unique(b: Builder, x: Value, sort: Value = False, return_inverse: Value = True,
           return_counts: Value = False) -> Value:
    """(the distinct elements in order of appearance, or sorted, which of them each element is, and how often)."""
    tensor = b.tensor(x)
    second = b.node is not None and b.node.primitive == "Unique2"
    kinds = [TensorType(tensor.dtype, (-1,)), *[TensorType(_INT64, (-1,))] * 3]
    y, _, inverse, counts = b.op("Unique", flattened(b, tensor), outputs=4, types=kinds, sorted=int(second))
    return (y, b.op("Reshape", inverse, b.op("Shape", tensor)), counts) if second else (y, inverse)


@lowers("UniqueConsecutive")
def unique_consecutive(b: Builder, input: Value, return_inverse: Value = False, return_counts: Value = False,
                       dim: Value = None) -> Value:
    """(the elements without repetitions, which of them each element is, how often each comes)."""
    x = b.tensor(input)
    if dim is not None and x.rank != 1:
        raise ValueError("UniqueConsecutive along an axis is not supported")
    flat, end = flattened(b, x), np.iinfo(np.int64).max
    same = b.op("Equal", b.op("Slice", flat, (1,), (end,)), b.op("Slice", flat, (0,), (-1,)))
    first = b.op("Concat", np.ones(1, np.bool_), b.op("Not", same), axis=0)
    inverse = b.op("Sub", b.op("CumSum", b.cast(first, _INT64), np.asarray(0, np.int64)), 1)
    starts = b.op("Squeeze", b.op("NonZero", first, type=TensorType(_INT64, None)), (0,))
    ends = b.op("Concat", b.op("Slice", starts, (1,), (end,)), b.op("Reshape", b.op("Size", flat), (1,)), axis=0)
    return (b.op("Compress", flat, first), b.op("Reshape", inverse, b.op("Shape", x)) if return_inverse else None,
            b.op("Sub", ends, starts) if return_counts else None)


@lowers("Take")
def take(b: Builder, input: Value, index_: Value) -> Value:
    """Elements by their places in the flattened tensor."""
    return b.op("Gather", flattened(b, b.tensor(input)), index(b, index_), axis=0)


@lowers("EmbeddingLookup")
def embedding_lookup(b: Builder, params: Value, indices: Value, offset: Value = 0) -> Value:
    """Rows of a part of a table that begins at an offset; zeros for those outside."""
    table, ids = b.tensor(params), b.cast(index(b, indices), _INT64)
    ids = b.op("Sub", ids, integer(offset, "the offset"))
    count = b.op("Gather", b.op("Shape", table), np.asarray(0, np.int64))
    inside = b.op("And", b.op("GreaterOrEqual", ids, 0), b.op("Less", ids, count))
    rows = b.op("Gather", table, where(b, inside, ids, 0, _INT64), axis=0)
    return where(b, b.op("Unsqueeze", inside, (-1,)), rows, 0, table.dtype)
