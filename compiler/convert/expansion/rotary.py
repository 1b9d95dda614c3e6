"""Rotary embeddings: pairs of numbers that are rotated by an angle of their position.

Sources: the schema of onnxruntime, domain com.microsoft, and ONNX's own operator of opset 23.
"""

from __future__ import annotations

import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("com.microsoft::RotaryEmbedding")
def contributed(
    e: Expander,
    x: ir.Value,
    positions: ir.Value,
    cosines: ir.Value,
    sines: ir.Value,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> ir.Value:
    """x[batch, length, heads * width] or x[batch, heads, length, width]; positions[batch, length]
    or, for the first one of all rows, positions[1].
    """
    if is_packed_batching:
        raise ValueError("packed batches are not supported")
    width = 2 * _columns(e, cosines)
    heads = num_heads if rotary_embedding_dim else 0
    split = e.rank(x) == 3
    if split:
        shape = [0, 0, heads or -1, width if not heads else -1]
        x4 = e.op("Transpose", e.op("Reshape", x, e.constant(shape)), perm=[0, 2, 1, 3])
    else:
        x4 = x
    if e.rank(positions) == 1:
        positions = _counted(e, x4, positions)
    rotated = rotate(
        e,
        x4,
        e.op("Gather", cosines, positions),
        e.op("Gather", sines, positions),
        width if rotary_embedding_dim else 0,
        bool(interleaved),
    )
    if not split:
        return rotated
    back = e.op("Transpose", rotated, perm=[0, 2, 1, 3])
    return e.op("Reshape", back, e.constant([0, 0, -1]))


@expands("RotaryEmbedding")
def standard(
    e: Expander,
    x: ir.Value,
    cosines: ir.Value,
    sines: ir.Value,
    positions: ir.Value | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> ir.Value:
    """x[batch, length, heads * width] or x[batch, heads, length, width]; without positions,
    cosines[batch, length, width / 2].
    """
    split = e.rank(x) == 3
    x4 = x
    if split:
        parted = e.op("Reshape", x, e.constant([0, 0, num_heads, -1]))
        x4 = e.op("Transpose", parted, perm=[0, 2, 1, 3])
    if positions is not None:
        cosines, sines = (e.op("Gather", one, positions) for one in (cosines, sines))
    rotated = rotate(e, x4, cosines, sines, rotary_embedding_dim, bool(interleaved))
    if not split:
        return rotated
    back = e.op("Transpose", rotated, perm=[0, 2, 1, 3])
    return e.op("Reshape", back, e.constant([0, 0, -1]))


def rotate(
    e: Expander,
    x: ir.Value,
    cosines: ir.Value,
    sines: ir.Value,
    width: int,
    interleaved: bool,
) -> ir.Value:
    """x[batch, heads, length, all], of which the first `width` columns are rotated, 0: all; by
    cosines[batch, length, width / 2].
    """
    rest = None
    if width:
        last = e.constant([2**31])
        rest = e.op("Slice", x, e.constant([width]), last, e.constant([3]))
        x = e.op("Slice", x, e.constant([0]), e.constant([width]), e.constant([3]))
    cosine, sine = (e.op("Unsqueeze", one, e.constant([1])) for one in (cosines, sines))
    if interleaved:
        pairs = e.op("Reshape", x, e.constant([0, 0, 0, -1, 2]))
        first, second = (e.op("Gather", pairs, e.constant(at), axis=4) for at in (0, 1))
    else:
        first, second = e.halves(x, 3)
    real = e.op("Sub", e.op("Mul", first, cosine), e.op("Mul", second, sine))
    imaginary = e.op("Add", e.op("Mul", first, sine), e.op("Mul", second, cosine))
    if interleaved:
        both = [e.op("Unsqueeze", one, e.constant([4])) for one in (real, imaginary)]
        found = e.op("Reshape", e.op("Concat", *both, axis=4), e.constant([0, 0, 0, -1]))
    else:
        found = e.op("Concat", real, imaginary, axis=3)
    return found if rest is None else e.op("Concat", found, rest, axis=3)


def _columns(e: Expander, cosines: ir.Value) -> int:
    columns = e.sizes(cosines)[-1]
    if columns is None:
        raise ValueError("the width of its cosines is open")
    return columns


def _counted(e: Expander, x: ir.Value, first: ir.Value) -> ir.Value:
    """Positions from the given one on, one row for all."""
    length = e.op("Squeeze", e.op("Slice", e.op("Shape", x), e.constant([2]), e.constant([3])))
    numbers = e.op("Range", e.constant(0), length, e.constant(1))
    return e.op("Unsqueeze", e.op("Add", numbers, first), e.constant([0]))
