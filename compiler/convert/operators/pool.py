"""Pooling: the mean or the maximum of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ...mindir.graph import Constant
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .pool_window import PoolWindow, taken_apart
from .registry import converts

_WHOLE_VOLUMES: Mapping[str, Constant] = {"ceil_mode": 0, "pad_list": (0,) * 6}
"""Attributes of pools in three dimensions whose windows lie within the volumes."""


@converts("GlobalAveragePool", primitive="ReduceMean")
@converts("GlobalMaxPool", primitive="ReduceMax")
def whole(c: NodeConversion, x: MindirValue, *, primitive: str) -> MindirValue:
    """Over all places of an image."""
    return c.apply(primitive, x, tuple(range(2, x.rank)), True)


@converts("MaxPool")
def maximum(
    c: NodeConversion,
    x: MindirValue,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> MindirValue:
    """Of images, volumes, or lines of a height of 1; beyond the edge is the least number."""
    if x.rank not in (3, 4, 5) or len(c.types) > 1:
        raise ValueError("only of one to three dimensions, without indices")
    window = PoolWindow.of(kernel_shape, strides, dilations)
    if x.rank == 3:
        return _of_lines(c, maximum, x, window, pads, auto_pad=auto_pad, ceil_mode=ceil_mode)
    around = _around(c, x, window, tuple(pads), auto_pad, ceil_mode)
    lowest = -np.inf if dtypes.is_float(x.dtype) else dtypes.limits(x.dtype)[0]
    padded = _padded(c, x, around, lowest)
    if window.dilated:
        return taken_apart(c, padded, window, "Maximum")
    layout, whole_volumes = ("NCHW", {}) if x.rank == 4 else ("NCDHW", _WHOLE_VOLUMES)
    return c.apply(
        "MaxPool" if x.rank == 4 else "MaxPool3D",
        padded,
        **whole_volumes,
        data_format=layout,
        format=layout,
        kernel_size=(1, 1, *window.kernel),
        pad_mode="VALID",
        strides=(1, 1, *window.steps),
    )


@converts("AveragePool")
def average(
    c: NodeConversion,
    x: MindirValue,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> MindirValue:
    """Of images, or lines of a height of 1. Where the padding does not count, the sums of windows
    are divided by how many of their places lie within the image.
    """
    if x.rank not in (3, 4, 5):
        raise ValueError("only of one to three dimensions")
    window = PoolWindow.of(kernel_shape, strides, dilations)
    if x.rank == 3:
        more = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        return _of_lines(c, average, x, window, pads, auto_pad=auto_pad, **more)
    around = _around(c, x, window, tuple(pads), auto_pad, ceil_mode)
    padded = _padded(c, x, around, 0)
    found = _means(c, padded, window)
    if not any(around) or count_include_pad and not ceil_mode:
        return found
    if min(x.shape[2:]) < 0:
        ones = _padded(c, c.apply("OnesLike", x, type=x.type), around, 0)
        return c.apply("Div", found, _means(c, ones, window))
    return c.apply("Mul", found, _weights(x, around, window, c, bool(count_include_pad)))


def _means(c: NodeConversion, x: MindirValue, window: PoolWindow) -> MindirValue:
    """The means of windows that lie within images, or volumes."""
    if window.dilated:
        sums = taken_apart(c, x, window, "Add")
        return c.apply("Mul", sums, np.asarray(1 / prod(window.kernel), x.dtype))
    if x.rank == 4:
        return c.apply("AvgPool", x, window.kernel, window.steps, 2, 0)
    return c.apply(
        "AvgPool3D",
        x,
        **_WHOLE_VOLUMES,
        count_include_pad=True,
        data_format="NCDHW",
        divisor_override=0,
        format="NCDHW",
        kernel_size=(1, 1, *window.kernel),
        pad=(0,) * 6,
        pad_mode="VALID",
        strides=(1, 1, *window.steps),
    )


def _of_lines(
    c: NodeConversion,
    pool: Callable[..., MindirValue],
    x: MindirValue,
    window: PoolWindow,
    pads: Sequence[int],
    **how: int | str,
) -> MindirValue:
    """Pooling of one dimension: that of images with a height of 1."""
    *others, length = c.shape
    image = c.apply("ExpandDims", x, 2, type=TensorType(x.dtype, (*x.shape[:2], 1, x.shape[2])))
    found = pool(
        replace(c, types=[TensorType(x.dtype, (*others, 1, length))]),
        image,
        kernel_shape=(1, *window.kernel),
        strides=(1, *window.steps),
        dilations=(1, *window.gaps),
        pads=(0, pads[0], 0, pads[1]) if pads else (),
        **how,
    )
    return c.apply("Squeeze", found, (2,))


def _weights(
    x: MindirValue,
    around: tuple[int, ...],
    window: PoolWindow,
    c: NodeConversion,
    padding_counts: bool,
) -> np.ndarray:
    """By what the means of whole windows are multiplied."""
    factors = []
    for axis, size in enumerate(x.shape[2:]):
        before = around[axis]
        out = (c.type.shape or ())[2 + axis]
        begins = np.arange(out) * window.steps[axis] - before
        low, high = (-before, size + before) if padding_counts else (0, size)
        factors.append(window.kernel[axis] / window.counted(axis, begins, low, high))
    return reduce(np.multiply.outer, factors).astype(x.dtype)[None, None]


def _around(
    c: NodeConversion,
    x: MindirValue,
    window: PoolWindow,
    pads: tuple[int, ...],
    auto_pad: str,
    ceil_mode: int,
) -> tuple[int, ...]:
    """Rows before and after, of all axes before first, as many as windows reach."""
    places = x.rank - 2
    if window.dilated and auto_pad.startswith("SAME"):  # onnxruntime pads less than ONNX says
        raise ValueError("only with explicit pads, where it has dilations")
    if min(x.shape[2:]) < 0 and auto_pad in ("NOTSET", "VALID") and not ceil_mode:
        return pads or (0,) * 2 * places
    shape = c.type.shape or ()
    found = list(pads or (0,) * 2 * places)
    for axis, size in enumerate(x.shape[2:]):
        out = shape[2 + axis]
        if size < 0 or out < 0:
            raise ValueError("the size of the image is open: fix it by --inputShape")
        total = max(0, (out - 1) * window.steps[axis] + window.reach(axis) - size)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            less = total // 2
            found[axis] = less if auto_pad == "SAME_UPPER" else total - less
        found[places + axis] = total - found[axis]
    return tuple(found)


def _padded(
    c: NodeConversion, x: MindirValue, around: tuple[int, ...], value: float
) -> MindirValue:
    """An image with an edge of one value; windows that end before the edge lose rows instead."""
    if not any(around):
        return x
    places = x.rank - 2
    pairs = list(zip(around[:places], around[places:], strict=True))
    grown = zip(x.shape[2:], pairs, strict=True)
    image = (-1 if old < 0 else old + sum(pair) for old, pair in grown)
    kind = TensorType(x.dtype, (*x.shape[:2], *image))
    paddings = tuple(size for pair in reversed(pairs) for size in pair)
    number = np.asarray(value, x.dtype)
    return c.apply(
        "PadV3", x, paddings, number, type=kind, mode="constant", paddings_contiguous=True
    )
