"""Splitting: a tensor cut along an axis into a tuple of parts."""

from __future__ import annotations

from ...element_types.value_types import TupleType
from ..builder import Builder, OnnxTensor, Value, dims, integer, integers, known, lowers, moderate

_MOST_PARTS = 1 << 14  # each is a result of the node


@lowers("Unstack", "UnstackExtView", "Unpack")
def unstack(b: Builder, x: Value, axis: Value = 0, *, num: Value = 0) -> Value:
    """The slices along an axis, without it."""
    x, at = b.tensor(x), integer(axis, "the axis")
    count = integer(num, "num") or known(x, at)
    return tuple(b.op("Squeeze", part, (at,)) for part in _parts(b, x, at, count))


def _parts(b: Builder, x: OnnxTensor, axis: int, count: int) -> tuple[OnnxTensor, ...]:
    """x in `count` equal parts; where it does not divide, the last is smaller."""
    return b.ops("Split", x, outputs=count, axis=axis, num_outputs=count)


@lowers("Split")
def split(b: Builder, input_x: Value, axis: Value = 0, output_num: Value = 1) -> Value:
    """output_num equal parts."""
    at, count = integer(axis, "the axis"), integer(output_num, "output_num")
    return _parts(b, b.tensor(input_x), at, count)


@lowers("SplitTensor", "SplitTensorView")
def split_tensor(b: Builder, input: Value, split_size: Value, dim: Value = 0) -> Value:
    """Parts of split_size, the last with the rest."""
    x, at, size = b.tensor(input), integer(dim, "dim"), integer(split_size, "split_size")
    total = known(x, at)
    moderate(total // size, "the number of parts", _MOST_PARTS)
    sizes = [size] * (total // size) + ([total % size] if total % size else [])
    return split_with_size(b, x, tuple(sizes), at)


@lowers("SplitWithSize", "SplitWithSizeView")
def split_with_size(b: Builder, input: Value, split_size: Value, dim: Value = 0) -> Value:
    """Parts of the sizes given."""
    sizes, at = integers(split_size, "split_size"), integer(dim, "dim")
    x = b.tensor(input)
    return (x,) if len(sizes) == 1 else b.ops("Split", x, sizes, outputs=len(sizes), axis=at)


@lowers("SplitV")
def split_v(
    b: Builder, input_x: Value, *, size_splits: Value, split_dim: Value, num_split: Value = 0
) -> Value:
    """Parts of the sizes given, of which one may be -1."""
    x, at = b.tensor(input_x), integer(split_dim, "split_dim")
    sizes = integers(size_splits, "size_splits")
    if -1 not in sizes:
        return split_with_size(b, x, sizes, at)
    total, given = dims(b, x)[at], sum(sizes) + 1
    rest = total - given if isinstance(total, int) else b.op("Sub", total, given)
    parts = tuple(rest if size == -1 else size for size in sizes)
    return b.ops("Split", x, b.ints(parts), outputs=len(parts), axis=at)


@lowers("Chunk", "ChunkView")
def chunk(b: Builder, input: Value, chunks: Value, dim: Value = 0) -> Value:
    """At most `chunks` parts of one size, the last with the rest."""
    x, at, count = b.tensor(input), integer(dim, "dim"), integer(chunks, "chunks")
    kind = b.result_type
    if x.shape is not None and x.shape[at] >= 0:
        return split_tensor(b, x, max(1, -(-x.shape[at] // count)), at)
    if isinstance(kind, TupleType) and kind.items is not None:
        count = len(kind.items)
    return _parts(b, x, at, count)
