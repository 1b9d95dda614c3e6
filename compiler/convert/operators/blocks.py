"""Blocks: moves elements between the channels and the places of images."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("DepthToSpace")
def depth_to_space(
    c: NodeConversion, x: MindirValue, *, blocksize: int, mode: str = "DCR"
) -> MindirValue:
    """Channels as places of blocks, the place first or the channel first."""
    n, channels, height, width = x.shape
    depth = channels // blocksize**2
    if min(x.shape) < 0:
        turned = _by_place(c, x, depth, mode)
        return c.apply("DepthToSpace", turned, block_size=blocksize, format="NCHW")
    if mode == "DCR":
        parts, order = (n, blocksize, blocksize, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, depth, blocksize, blocksize, height, width), (0, 1, 4, 2, 5, 3)
    return _moved(c, x, parts, order)


def _by_place(c: NodeConversion, x: MindirValue, depth: int, mode: str) -> MindirValue:
    """The channels of images of an open size, those of one place of the blocks together."""
    if x.shape[1] < 0:
        raise ValueError("the number of channels is open: fix it by --inputShape")
    if mode == "DCR":
        return x
    order = np.arange(x.shape[1], dtype=np.int64).reshape(depth, -1).T.reshape(-1)
    return c.apply("Gather", x, order, 1, 0, type=TensorType(x.dtype, x.shape))


@converts("SpaceToDepth")
def space_to_depth(
    c: NodeConversion, x: MindirValue, *, blocksize: int, mode: str = "DCR"
) -> MindirValue:
    """Places of blocks as channels, the place first or the channel first."""
    n, channels, height, width = x.shape
    if min(x.shape) < 0 and mode == "DCR":
        return c.apply("SpaceToDepth", x, block_size=blocksize, format="NCHW")
    if min(x.shape) < 0:
        raise ValueError("the size of the image is open: fix it by --inputShape")
    parts = (n, channels, height // blocksize, blocksize, width // blocksize, blocksize)
    return _moved(c, x, parts, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))


def _moved(
    c: NodeConversion, x: MindirValue, parts: tuple[int, ...], order: tuple[int, ...]
) -> MindirValue:
    """Reshape, transpose, reshape."""
    split = c.reshaped(x, parts)
    turned = c.transposed(split, order)
    return c.apply("Reshape", turned, c.type.shape)
