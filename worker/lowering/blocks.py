"""Blocks of channels, of the batch or of pixels that change places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import is_float
from .arguments import integer, integers
from .builder import Builder, Tensor, Value
from .registry import lowers
from .shape import dims

_END = np.iinfo(np.int64).max


def regrouped(b: Builder, x: Tensor, split: Sequence[Value], order: Sequence[int], joined: Sequence[Value]) -> Tensor:
    """x in more dimensions, those in another order, and in fewer again."""
    parts = b.op("Transpose", b.op("Reshape", x, b.tensor(tuple(split))), perm=list(order))
    result: Tensor = b.op("Reshape", parts, b.tensor(tuple(joined)))
    return result


def _by(b: Builder, size: Value, factor: int) -> Value:
    """A size divided by a factor, known now or at run time."""
    return size // factor if isinstance(size, int) else b.op("Div", size, factor)


def _times(b: Builder, size: Value, factor: int) -> Value:
    return size * factor if isinstance(size, int) else b.op("Mul", size, factor)


@lowers("DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int) -> Value:
    """Blocks of channels become squares of pixels."""
    return _squares(b, b.tensor(x), block_size, "DCR")


def _squares(b: Builder, x: Tensor, size: int, mode: str) -> Tensor:
    """DepthToSpace, which onnxruntime has for floats alone; the blocks (DCR) or the channels (CRD) come first."""
    if is_float(x.dtype):
        result: Tensor = b.op("DepthToSpace", x, blocksize=size, mode=mode)
        return result
    n, c, h, w = dims(b, x)
    inner = _by(b, c, size ** 2)
    split, order = (((size, size, inner), (0, 3, 4, 1, 5, 2)) if mode == "DCR" else
                    ((inner, size, size), (0, 1, 4, 2, 5, 3)))
    return regrouped(b, x, (n, *split, h, w), order, (n, inner, _times(b, h, size), _times(b, w, size)))


@lowers("SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int) -> Value:
    """Squares of pixels become blocks of channels."""
    x = b.tensor(x)
    if is_float(x.dtype):
        return b.op("SpaceToDepth", x, blocksize=block_size)
    n, c, h, w = dims(b, x)
    rows, columns = _by(b, h, block_size), _by(b, w, block_size)
    return regrouped(b, x, (n, c, rows, block_size, columns, block_size), (0, 3, 5, 1, 2, 4),
                     (n, _times(b, c, block_size ** 2), rows, columns))


@lowers("PixelShuffle")
def pixel_shuffle(b: Builder, input: Value, upscale_factor: Value) -> Value:
    """Blocks of channels become squares of pixels, channel-major as torch has it."""
    return _squares(b, b.tensor(input), integer(upscale_factor, "upscale_factor"), "CRD")


@lowers("ChannelShuffle")
def channel_shuffle(b: Builder, x: Value, *, group: int) -> Value:
    """The channels of all groups in turn."""
    x = b.tensor(x)
    n, c, *rest = dims(b, x)
    order = (0, 2, 1, *range(3, x.rank + 1))
    return regrouped(b, x, (n, group, _by(b, c, group), *rest), order, (n, c, *rest))


@lowers("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(b: Builder, x: Value, *, block_shape: Value = None, block_size: Value = None,
                   paddings: Value = ()) -> Value:
    """Squares of the last axes, padded with zeros, become blocks of the batch."""
    x = b.tensor(x)
    blocks = _blocks(block_shape, block_size)
    pads = np.asarray(paddings).reshape(-1, 2)
    first = x.rank - len(blocks)
    if pads.any():
        axes = tuple(range(first, x.rank))
        x = b.op("Pad", x, (*pads[:, 0].tolist(), *pads[:, 1].tolist()), None, axes)
        x = Tensor(x.name, x.dtype, (-1,) * (first + len(blocks)))
    n, *sizes = dims(b, x)
    outer, space = sizes[:first - 1], [_by(b, s, k) for s, k in zip(sizes[first - 1:], blocks, strict=True)]
    split = (n, *outer, *(part for pair in zip(space, blocks, strict=True) for part in pair))
    inner = [first + 1 + 2 * at for at in range(len(blocks))]
    order = (*inner, *range(first), *(at - 1 for at in inner))
    return regrouped(b, x, split, order, (_times(b, n, int(np.prod(blocks))), *outer, *space))


@lowers("BatchToSpaceND", "BatchToSpace", "BatchToSpaceNDV2")
def batch_to_space(b: Builder, x: Value, block_shape: Value = None, crops: Value = (), *,
                   block_size: Value = None) -> Value:
    """Blocks of the batch become squares of the last axes, of which the edges are cut off."""
    x = b.tensor(x)
    blocks, count = _blocks(block_shape, block_size), x.rank
    first = count - len(blocks)
    n, *sizes = dims(b, x)
    batch = _by(b, n, int(np.prod(blocks)))
    order = [*range(len(blocks), len(blocks) + first)]
    for at in range(len(blocks)):
        order += [len(blocks) + first + at, at]
    wide = [_times(b, s, k) for s, k in zip(sizes[first - 1:], blocks, strict=True)]
    y = regrouped(b, x, (*blocks, batch, *sizes), order, (batch, *sizes[:first - 1], *wide))
    cut = np.asarray(crops).reshape(-1, 2)
    if not cut.any():
        return y
    ends = tuple(-int(end) if end else _END for end in cut[:, 1])
    return b.op("Slice", y, tuple(cut[:, 0].tolist()), ends, tuple(range(first, count)))


def _blocks(shape: Value, size: Value) -> tuple[int, ...]:
    return integers(shape, "block_shape") if shape is not None else (integer(size, "block_size"),) * 2


@lowers("ReverseSequence")
def reverse_sequence(b: Builder, x: Value, seq_lengths: Value, *, seq_dim: int, batch_dim: int = 0) -> Value:
    """The first elements of each sequence in reverse, so many as its length says."""
    if {seq_dim, batch_dim} != {0, 1}:
        raise ValueError(f"the sequence axis {seq_dim} and the batch axis {batch_dim} are not supported: transpose "
                         f"to 0 and 1")
    lengths = b.cast(b.tensor(seq_lengths), np.dtype(np.int64))
    return b.op("ReverseSequence", b.tensor(x), lengths, time_axis=seq_dim, batch_axis=batch_dim)
