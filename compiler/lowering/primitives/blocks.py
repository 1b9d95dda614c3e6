"""Blocks: channels, batches or pixels rearranged."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import END, INT64, Builder, OnnxTensor, Value, dims, integer, integers, lowers, times


def _regrouped(
    b: Builder, x: OnnxTensor, split: Sequence[Value], order: Sequence[int], joined: Sequence[Value]
) -> OnnxTensor:
    """x in more dimensions, those in another order, and in fewer again."""
    parts = b.op("Transpose", b.op("Reshape", x, b.tensor(tuple(split))), perm=list(order))
    return b.op("Reshape", parts, b.tensor(tuple(joined)))


def _by(b: Builder, size: Value, factor: int) -> Value:
    """A size divided by a factor, known now or at run time."""
    return size // factor if isinstance(size, int) else b.op("Div", size, factor)


@lowers("DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int) -> Value:
    """Blocks of channels become squares of pixels."""
    return _squares(b, b.tensor(x), block_size, "DCR")


def _squares(b: Builder, x: OnnxTensor, size: int, mode: str) -> OnnxTensor:
    """DepthToSpace, blocks (DCR) or channels (CRD) first; onnxruntime's is for floats alone."""
    if is_float(x.dtype):
        return b.op("DepthToSpace", x, blocksize=size, mode=mode)
    n, c, h, w = dims(b, x)
    inner = _by(b, c, size**2)
    joined = (n, inner, times(b, h, size), times(b, w, size))
    if mode == "DCR":
        return _regrouped(b, x, (n, size, size, inner, h, w), (0, 3, 4, 1, 5, 2), joined)
    return _regrouped(b, x, (n, inner, size, size, h, w), (0, 1, 4, 2, 5, 3), joined)


@lowers("SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int) -> Value:
    """Squares of pixels become blocks of channels."""
    x = b.tensor(x)
    if is_float(x.dtype):
        return b.op("SpaceToDepth", x, blocksize=block_size)
    n, c, h, w = dims(b, x)
    rows, columns = _by(b, h, block_size), _by(b, w, block_size)
    split = (n, c, rows, block_size, columns, block_size)
    joined = (n, times(b, c, block_size**2), rows, columns)
    return _regrouped(b, x, split, (0, 3, 5, 1, 2, 4), joined)


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
    return _regrouped(b, x, (n, group, _by(b, c, group), *rest), order, (n, c, *rest))


@lowers("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(
    b: Builder,
    x: Value,
    *,
    block_shape: Value = None,
    block_size: Value = None,
    paddings: Value = (),
) -> Value:
    """Squares of the last axes, padded with zeros, become blocks of the batch."""
    x = b.tensor(x)
    blocks = _blocks(block_shape, block_size)
    pads = np.asarray(paddings).reshape(-1, 2)
    first = x.rank - len(blocks)
    if pads.any():
        axes = tuple(range(first, x.rank))
        x = b.op("Pad", x, (*pads[:, 0].tolist(), *pads[:, 1].tolist()), None, axes)
        x = OnnxTensor(x.name, x.dtype, (-1,) * (first + len(blocks)))
    n, *sizes = dims(b, x)
    outer = sizes[: first - 1]
    space = [_by(b, s, k) for s, k in zip(sizes[first - 1 :], blocks, strict=True)]
    split = (n, *outer, *(part for pair in zip(space, blocks, strict=True) for part in pair))
    inner = [first + 1 + 2 * at for at in range(len(blocks))]
    order = (*inner, *range(first), *(at - 1 for at in inner))
    return _regrouped(b, x, split, order, (times(b, n, prod(blocks)), *outer, *space))


@lowers("BatchToSpaceND", "BatchToSpace", "BatchToSpaceNDV2")
def batch_to_space(
    b: Builder, x: Value, block_shape: Value = None, crops: Value = (), *, block_size: Value = None
) -> Value:
    """Blocks of the batch become squares of the last axes, of which the edges are cut off."""
    x = b.tensor(x)
    blocks, count = _blocks(block_shape, block_size), x.rank
    first = count - len(blocks)
    n, *sizes = dims(b, x)
    batch = _by(b, n, prod(blocks))
    order = [*range(len(blocks), len(blocks) + first)]
    for at in range(len(blocks)):
        order += [len(blocks) + first + at, at]
    wide = [times(b, s, k) for s, k in zip(sizes[first - 1 :], blocks, strict=True)]
    y = _regrouped(b, x, (*blocks, batch, *sizes), order, (batch, *sizes[: first - 1], *wide))
    cut = np.asarray(crops).reshape(-1, 2)
    if not cut.any():
        return y
    ends = tuple(-int(end) if end else END for end in cut[:, 1])
    return b.op("Slice", y, tuple(cut[:, 0].tolist()), ends, tuple(range(first, count)))


def _blocks(shape: Value, size: Value) -> tuple[int, ...]:
    return (
        integers(shape, "block_shape") if shape is not None else (integer(size, "block_size"),) * 2
    )


@lowers("ReverseSequence")
def reverse_sequence(
    b: Builder, x: Value, seq_lengths: Value, *, seq_dim: int, batch_dim: int = 0
) -> Value:
    """The first elements of each sequence in reverse, so many as its length says."""
    if {seq_dim, batch_dim} != {0, 1}:
        raise ValueError(
            f"the sequence axis {seq_dim} and the batch axis {batch_dim} are not supported: "
            f"transpose to 0 and 1"
        )
    lengths = b.cast(b.tensor(seq_lengths), INT64)
    return b.op("ReverseSequence", b.tensor(x), lengths, time_axis=seq_dim, batch_axis=batch_dim)
