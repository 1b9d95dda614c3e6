"""Blocks of images in .ms files: moved between channels, batch and the plane, channels last."""

from __future__ import annotations

from ..builder import Builder, Value, integers, lowers, spatial
from ..primitives.blocks import batch_to_space, space_to_batch
from .layout import channels_first, channels_last


@lowers("Lite.DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int, mode: str) -> Value:
    """ONNX's DepthToSpace, with the blocks first (DCR) unless the mode is CRD."""
    order = "CRD" if mode == "CRD" else "DCR"
    y = b.op("DepthToSpace", channels_first(b, x), blocksize=block_size, mode=order)
    return channels_last(b, y)


@lowers("Lite.SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int) -> Value:
    """ONNX's SpaceToDepth."""
    return channels_last(b, b.op("SpaceToDepth", channels_first(b, x), blocksize=block_size))


@lowers("Lite.SpaceToBatch", "Lite.SpaceToBatchND")
def to_batch(
    b: Builder,
    x: Value,
    blocks: Value = None,
    pads: Value = None,
    *,
    block_size: Value = (),
    block_shape: Value = (),
    paddings: Value = (),
) -> Value:
    """MindIR's SpaceToBatchND of planes."""
    shape = block_shape or block_size or integers(blocks, "the blocks")
    around = paddings or _pairs(pads) or ((0, 0), (0, 0))
    y = space_to_batch(
        b, channels_first(b, x), block_shape=spatial(shape, 2, "the blocks"), paddings=around
    )
    return channels_last(b, y)


@lowers("Lite.BatchToSpace", "Lite.BatchToSpaceND")
def from_batch(
    b: Builder,
    x: Value,
    blocks: Value = None,
    cut: Value = None,
    *,
    block_size: Value = (),
    block_shape: Value = (),
    crops: Value = (),
) -> Value:
    """MindIR's BatchToSpaceND of planes."""
    shape = block_shape or block_size or integers(blocks, "the blocks")
    around = crops or _pairs(cut) or ((0, 0), (0, 0))
    y = batch_to_space(b, channels_first(b, x), spatial(shape, 2, "the blocks"), around)
    return channels_last(b, y)


def _pairs(value: Value) -> tuple[tuple[int, int], ...]:
    given = integers(value, "the paddings")
    return tuple(zip(given[::2], given[1::2], strict=True))
