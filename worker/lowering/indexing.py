"""Indexing by several tensors at once, as MindSpore writes it where dimensions are unknown."""

from __future__ import annotations

from dataclasses import replace

from .builder import Builder, Tensor, Value
from .registry import lowers
from .shape import dims


@lowers("GetTupleIndexInfo")
def tuple_index_info(b: Builder, x: Value, position: Value, *indices: Value, tuple_index_types: Value,
                     expand_dims_cnt: int = 0) -> Value:
    """How x[i, j, ...] is gathered: (position, broadcast shape, shape of each index, shape of the result).

    Only indices that are all tensors (type 17) are known here.
    """
    used = [code for code in tuple_index_types if code]
    if set(used) != {17} or expand_dims_cnt:
        raise ValueError("indexing with slices and tensors at once, in unknown dimensions, is not supported")
    shapes = [dims(b, b.tensor(item)) for item in indices[:len(used)]]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    broadcast = tuple(_broadcast(b, sizes) for sizes in zip(*padded, strict=True))
    return 0, broadcast, broadcast, broadcast


def _broadcast(b: Builder, sizes: tuple[Value, ...]) -> Value:
    """The one size that is not 1; of sizes known at run time only, the largest."""
    known_sizes = [size for size in sizes if isinstance(size, int) and size != 1]
    open_sizes = [size for size in sizes if isinstance(size, Tensor)]
    if known_sizes or not open_sizes:
        return known_sizes[0] if known_sizes else 1
    return open_sizes[0] if len(sizes) == 1 else replace(b.op("Max", *open_sizes, 1), shape=(), scalar=True)
