"""Pooling: the largest element or the mean of each window."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypedDict

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Padding,
    Value,
    at_run_time,
    dims,
    integers,
    is_channels_last,
    lowers,
    lowers_each,
    number,
    padding,
    product,
    spatial,
    symmetric,
    to_channels_first,
    to_channels_last,
    without_ends,
)


class Window(TypedDict):
    """The ONNX attributes of a window."""

    kernel_shape: Sequence[int]
    strides: Sequence[int]


def _window(kernel: Value, strides: Value, count: int, last: bool = False) -> Window:
    kernel, strides = (without_ends(value, count) if last else value for value in (kernel, strides))
    sizes = spatial(kernel, count, "kernel_size")
    given = strides not in (None, ())
    return {
        "kernel_shape": sizes,
        "strides": spatial(strides, count, "the strides") if given else sizes,
    }


@lowers_each("count", {"MaxPool": 2, "MaxPool3D": 3})
def max_pool(
    b: Builder,
    x: Value,
    *,
    kernel_size: Value,
    strides: Value = 1,
    pad_mode: Value = "valid",
    pad_list: Value = (),
    ceil_mode: Value = False,
    format: Value = "NCHW",
    data_format: Value = "NCHW",
    count: int,
) -> Value:
    """The largest element of each window."""
    last = is_channels_last(format, data_format)
    tensor = to_channels_first(b, b.tensor(x)) if last else b.tensor(x)
    window, pads = _window(kernel_size, strides, count, last), integers(pad_list, "pad_list")
    y = b.op("MaxPool", tensor, **window, ceil_mode=int(bool(ceil_mode)), **padding(pad_mode, pads))
    return to_channels_last(b, y, count) if last else y


@lowers("AvgPool")
def avg_pool(
    b: Builder,
    x: Value,
    kernel_size: Value,
    strides: Value = 1,
    pad_mode: Value = "valid",
    data_format: Value = "NCHW",
    *,
    pad_list: Value = (),
    format: Value = "NCHW",
) -> Value:
    """The mean of each window, padding not counted."""
    last = is_channels_last(format, data_format)
    tensor = to_channels_first(b, b.tensor(x)) if last else b.tensor(x)
    if at_run_time(kernel_size) or at_run_time(strides):
        return _sliding_means(b, tensor, kernel_size[-2:], strides[-2:], pad_mode, last)
    pads = padding(pad_mode, integers(pad_list, "pad_list"))
    y = b.op("AveragePool", tensor, **_window(kernel_size, strides, 2, last), **pads)
    return to_channels_last(b, y, 2) if last else y


def _sliding_means(
    b: Builder, x: OnnxTensor, kernel: Value, strides: Value, pad_mode: Value, last: bool
) -> OnnxTensor:
    """Means of windows whose sizes are known at run time only, those of nn.AdaptiveAvgPool1d."""
    if last or padding(pad_mode) != {"auto_pad": "VALID"}:
        raise ValueError(
            "windows known at run time only are supported without padding and with channels first "
            "only"
        )
    for axis, size, step in zip((-2, -1), kernel, strides, strict=True):
        at = np.asarray(axis, np.int64)
        whole = b.op("Gather", b.op("Shape", x), at)
        size, step = b.tensor(size), b.tensor(step)
        count = b.op("Div", b.op("Add", b.op("Sub", whole, size), step), step)
        starts = b.op("Mul", b.op("Range", b.tensor(0), count, b.tensor(1)), step)
        ends = b.op("Sub", b.op("Add", starts, size), 1)
        to_end = b.op("Gather", b.op("CumSum", x, at), ends, axis=axis)
        to_start = b.op("Gather", b.op("CumSum", x, at, exclusive=1), starts, axis=axis)
        kind = TensorType(x.dtype, x.shape and (*x.shape[:2], -1, -1))
        x = b.op("Div", b.op("Sub", to_end, to_start), b.cast(size, x.dtype), type=kind)
    return x


def _averaged(
    b: Builder,
    x: OnnxTensor,
    divisor: Value,
    counted: Value,
    ceil_mode: Value,
    window: Window,
    around: Padding,
) -> OnnxTensor:
    """Means of windows, or their sums over another divisor."""
    if divisor and ceil_mode:
        raise ValueError("divisor_override with ceil_mode is not supported")
    y = b.op(
        "AveragePool",
        x,
        **window,
        ceil_mode=int(bool(ceil_mode)),
        count_include_pad=int(bool(counted or divisor)),
        **around,
    )
    if not divisor:
        return y
    return b.op("Mul", y, float(prod(window["kernel_shape"])) / number(divisor, "divisor_override"))


@lowers("AvgPool3D")
def avg_pool_3d(
    b: Builder,
    x: Value,
    *,
    kernel_size: Value,
    strides: Value = 1,
    pad_mode: Value = "valid",
    pad_list: Value = (),
    ceil_mode: Value = False,
    count_include_pad: Value = True,
    divisor_override: int = 0,
) -> Value:
    """The mean of each window in three dimensions."""
    return _averaged(
        b,
        b.tensor(x),
        divisor_override,
        count_include_pad,
        ceil_mode,
        _window(kernel_size, strides, 3),
        padding(pad_mode, integers(pad_list, "pad_list")),
    )


@lowers_each("count", {"AvgPool1D": 1, "AvgPool2D": 2, "AvgPool3DExt": 3})
def avg_pool_ext(
    b: Builder,
    input: Value,
    kernel_size: Value,
    stride: Value = None,
    padding_: Value = 0,
    ceil_mode: Value = False,
    count_include_pad: Value = True,
    divisor_override: Value = None,
    *,
    count: int,
) -> Value:
    """The mean of each window, with torch's arguments."""
    return _averaged(
        b,
        b.tensor(input),
        divisor_override,
        count_include_pad,
        ceil_mode,
        _window(kernel_size, stride, count),
        symmetric(padding_, count),
    )


@lowers("MaxPool3DWithArgmax")
def max_pool_argmax_3d(
    b: Builder,
    x: Value,
    *,
    ksize: Value,
    strides: Value = None,
    pads: Value = 0,
    dilation: Value = 1,
    ceil_mode: Value = False,
) -> Value:
    """(the largest element of each window, its place in its volume)."""
    return max_pool_indices(b, x, ksize, strides, pads, dilation, ceil_mode, count=3)


@lowers("MaxPoolWithMask", "MaxPoolWithIndices", "MaxPoolWithArgmaxV2", count=2)
def max_pool_indices(
    b: Builder,
    x: Value,
    kernel_size: Value,
    strides: Value = None,
    pads: Value = 0,
    dilation: Value = 1,
    ceil_mode: Value = False,
    *rest: Value,
    count: int = 2,
) -> tuple[OnnxTensor, OnnxTensor]:
    """(the largest element of each window, its place in its plane or volume)."""
    tensor = b.tensor(x)
    y, at = b.ops(
        "MaxPool",
        tensor,
        outputs=2,
        types=[TensorType(tensor.dtype, None), TensorType(INT64, None)],
        **_window(kernel_size, strides, count),
        **symmetric(pads, count),
        ceil_mode=int(bool(ceil_mode)),
        dilations=spatial(dilation, count, "the dilation"),
    )
    # ONNX counts through the whole tensor.
    return y, b.op("Mod", at, product(b, dims(b, tensor)[2:]))


@lowers("MaxPoolWithArgmax")
def max_pool_argmax_old(
    b: Builder, x: Value, *, kernel_size: Value, strides: Value = None, pad_mode: Value = "valid"
) -> Value:
    """(the largest element of each window, its place in its sample); windows are (1, h, w, 1)."""
    tensor = b.tensor(x)
    y, at = b.ops(
        "MaxPool",
        tensor,
        outputs=2,
        types=[TensorType(tensor.dtype, None), TensorType(INT64, None)],
        **_window(kernel_size, strides, 2, last=True),
        **padding(pad_mode),
    )
    return y, b.op("Mod", at, product(b, dims(b, tensor)[1:]))
