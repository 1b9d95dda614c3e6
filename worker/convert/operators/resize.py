"""Resizing: gives images other sizes, and moves elements between channels and places."""

from __future__ import annotations

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Resize")
def resize(
    c: NodeConversion,
    x: MindirValue,
    *given: MindirValue | None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    keep_aspect_ratio_policy: str = "stretch",
    axes: object = None,
) -> MindirValue:
    """To the sizes of the result, along the last two axes."""
    if x.rank != 4 or x.shape[:2] != (c.type.shape or ())[:2] or antialias or exclude_outside:
        raise ValueError("only images of 4 dimensions, along the last two, without antialias")
    size = tuple((c.type.shape or ())[2:])
    aligned = coordinate_transformation_mode == "align_corners"
    half = coordinate_transformation_mode in ("half_pixel", "pytorch_half_pixel")
    if mode == "nearest":
        return _nearest(c, x, size, coordinate_transformation_mode, nearest_mode)
    if mode == "linear":
        return c.apply("ResizeBilinearV2", x, size, aligned, half)
    if mode == "cubic" and cubic_coeff_a == -0.75:
        return c.apply("ResizeBicubic", x, size, aligned, half)
    raise ValueError(f"the mode '{mode}' with these attributes is not supported")


def _nearest(
    c: NodeConversion, x: MindirValue, size: tuple[int, ...], coordinates: str, rounding: str
) -> MindirValue:
    """The nearest place; a whole multiple of the size gives the same by all ways of rounding."""
    whole = all(new % old == 0 for new, old in zip(size, x.shape[2:], strict=True))
    if not whole and (coordinates, rounding) != ("asymmetric", "floor"):
        raise ValueError(f"{coordinates} with {rounding} is supported for whole multiples alone")
    return c.apply("ResizeNearestNeighborV2", x, size, False, False)


@converts("DepthToSpace")
def depth_to_space(
    c: NodeConversion, x: MindirValue, *, blocksize: int, mode: str = "DCR"
) -> MindirValue:
    """Channels as places of blocks, the place first or the channel first."""
    n, channels, height, width = x.shape
    depth = channels // blocksize**2
    if mode == "DCR":
        parts, order = (n, blocksize, blocksize, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, depth, blocksize, blocksize, height, width), (0, 1, 4, 2, 5, 3)
    return _moved(c, x, parts, order)


@converts("SpaceToDepth")
def space_to_depth(c: NodeConversion, x: MindirValue, *, blocksize: int) -> MindirValue:
    """Places of blocks as channels."""
    n, channels, height, width = x.shape
    parts = (n, channels, height // blocksize, blocksize, width // blocksize, blocksize)
    return _moved(c, x, parts, (0, 3, 5, 1, 2, 4))


def _moved(
    c: NodeConversion, x: MindirValue, parts: tuple[int, ...], order: tuple[int, ...]
) -> MindirValue:
    """Reshape, transpose, reshape."""
    split = c.reshaped(x, parts)
    turned = c.transposed(split, order)
    return c.apply("Reshape", turned, c.type.shape)
