"""Splitting: tensors cut along an axis into a tuple of parts."""

from __future__ import annotations

from ..mindir.graph import TupleType
from .arguments import integer, integers, known, moderate
from .builder import Builder, Tensor, Value
from .registry import lowers
from .shape import dims

_MOST_PARTS = 1 << 14  # each is a result of the node


@lowers("Unstack", "UnstackExtView", "Unpack")
def unstack(b: Builder, x: Value, axis: Value = 0, *, num: Value = 0) -> Value:
    """The slices along an axis, without it."""
    x, at = b.tensor(x), integer(axis, "the axis")
    count = integer(num, "num") or known(x, at)
    return tuple(b.op("Squeeze", part, (at,)) for part in _parts(b, x, at, count))


def _parts(b: Builder, x: Tensor, axis: int, count: int) -> tuple[Tensor, ...]:
    """x in `count` equal parts; where it does not divide, the last is smaller."""
    parts = b.op("Split", x, outputs=count, axis=axis, num_outputs=count)
    return (parts,) if count == 1 else parts


@lowers("Split")
def split(b: Builder, input_x: Value, axis: Value = 0, output_num: Value = 1) -> Value:
    """output_num equal parts."""
    return _parts(b, b.tensor(input_x), integer(axis, "the axis"), integer(output_num, "output_num"))


@lowers("SplitTensor", "SplitTensorView")
def split_tensor(b: Builder, input: Value, split_size: Value, dim: Value = 0) -> Value:
    """Parts of split_size, the last with what is left."""
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
    return (x,) if len(sizes) == 1 else b.op("Split", x, sizes, outputs=len(sizes), axis=at)


@lowers("SplitV")
def split_v(b: Builder, input_x: Value, *, size_splits: Value, split_dim: Value, num_split: Value = 0) -> Value:
    """Parts of the sizes given, of which one may be -1."""
    x, at, sizes = b.tensor(input_x), integer(split_dim, "split_dim"), list(integers(size_splits, "size_splits"))
    if -1 not in sizes:
        return split_with_size(b, x, tuple(sizes), at)
    total, given = dims(b, x)[at], sum(sizes) + 1
    rest = total - given if isinstance(total, int) else b.op("Sub", total, given)
    parts = tuple(rest if size == -1 else size for size in sizes)
    return b.op("Split", x, b.ints(parts), outputs=len(parts), axis=at)


@lowers("Chunk", "ChunkView")
def chunk(b: Builder, input: Value, chunks: Value, dim: Value = 0) -> Value:
    """At most so many parts of one size, the last with what is left."""
    x, at, count = b.tensor(input), integer(dim, "dim"), integer(chunks, "chunks")
    kind = b.node.type if b.node else None
    if x.shape is not None and x.shape[at] >= 0:
        return split_tensor(b, x, max(1, -(-x.shape[at] // count)), at)
    if isinstance(kind, TupleType) and kind.items is not None:
        count = len(kind.items)
    return _parts(b, x, at, count)
