"""Pooling over windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mindir.graph import TensorType
from .arguments import at_run_time, integers, number, padding, spatial
from .builder import Builder, Tensor, Value
from .layouts import channels_last, middle, to_first, to_last
from .registry import lowers
from .shape import dims

_INT64 = np.dtype(np.int64)


@lowers("MaxPool", "MaxPool3D")
def max_pool(b: Builder, x: Value, *, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
             pad_list: Value = (), ceil_mode: Value = False, format: Value = "NCHW",
             data_format: Value = "NCHW") -> Value:
    """The largest element of each window."""
    last, count = channels_last(format, data_format), 3 if b.node and b.node.primitive == "MaxPool3D" else 2
    tensor = to_first(b, b.tensor(x)) if last else b.tensor(x)
    y = b.op("MaxPool", tensor, **_window(kernel_size, strides, count, last), ceil_mode=int(bool(ceil_mode)),
             **padding(pad_mode, integers(pad_list, "pad_list")))
    return to_last(b, y, count) if last else y


def _window(kernel: Value, strides: Value, count: int, last: bool = False) -> dict[str, Any]:
    kernel, strides = (middle(value, count) if last else value for value in (kernel, strides))
    sizes = spatial(kernel, count, "kernel_size")
    steps = spatial(strides, count, "the strides") if strides not in (None, ()) else sizes
    return {"kernel_shape": sizes, "strides": steps}


@lowers("AvgPool")
def avg_pool(b: Builder, x: Value, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
             data_format: Value = "NCHW", *, pad_list: Value = (), format: Value = "NCHW") -> Value:
    """The mean of each window, padding not counted."""
    last = channels_last(format, data_format)
    tensor = to_first(b, b.tensor(x)) if last else b.tensor(x)
    if at_run_time(kernel_size) or at_run_time(strides):
        return sliding_means(b, tensor, kernel_size[-2:], strides[-2:], pad_mode, last)
    y = b.op("AveragePool", tensor, **_window(kernel_size, strides, 2, last),
             **padding(pad_mode, integers(pad_list, "pad_list")))
    return to_last(b, y, 2) if last else y


def sliding_means(b: Builder, x: Tensor, kernel: Value, strides: Value, pad_mode: Value, last: bool) -> Tensor:
    """Means of windows whose sizes are known at run time only, as nn.AdaptiveAvgPool1d has them."""
    if last or padding(pad_mode) != {"auto_pad": "VALID"}:
        raise ValueError("windows known at run time only are supported without padding and with channels first only")
    for axis, size, step in zip((-2, -1), kernel, strides, strict=True):
        whole, at = b.op("Gather", b.op("Shape", x), np.asarray(axis, np.int64)), np.asarray(axis, np.int64)
        count = b.op("Div", b.op("Add", b.op("Sub", whole, b.tensor(size)), b.tensor(step)), b.tensor(step))
        starts = b.op("Mul", b.op("Range", b.tensor(0), count, b.tensor(1)), b.tensor(step))
        ends = b.op("Sub", b.op("Add", starts, b.tensor(size)), 1)
        total = b.op("Sub", b.op("Gather", b.op("CumSum", x, at), ends, axis=axis),
                     b.op("Gather", b.op("CumSum", x, at, exclusive=1), starts, axis=axis))
        x = b.op("Div", total, b.cast(size, x.dtype), type=TensorType(x.dtype, x.shape and (*x.shape[:2], -1, -1)))
    return x


def _averaged(b: Builder, x: Tensor, divisor: Value, counted: Value, ceil_mode: Value, window: dict[str, Any],
              around: dict[str, Any]) -> Tensor:
    """Means of windows, or their sums over another divisor."""
    if divisor and ceil_mode:
        raise ValueError("divisor_override with ceil_mode is not supported")
    y: Tensor = b.op("AveragePool", x, **window, ceil_mode=int(bool(ceil_mode)),
                     count_include_pad=int(bool(counted or divisor)), **around)
    if divisor:
        y = b.op("Mul", y, float(np.prod(window["kernel_shape"])) / number(divisor, "divisor_override"))
    return y


@lowers("AvgPool3D")
def avg_pool_3d(b: Builder, x: Value, *, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
                pad_list: Value = (), ceil_mode: Value = False, count_include_pad: Value = True,
                divisor_override: int = 0) -> Value:
    """The mean of each window in three dimensions."""
    return _averaged(b, b.tensor(x), divisor_override, count_include_pad, ceil_mode, _window(kernel_size, strides, 3),
                     padding(pad_mode, integers(pad_list, "pad_list")))


@lowers("AvgPool2D", "AvgPool1D", "AvgPool3DExt")
def avg_pool_ext(b: Builder, input: Value, kernel_size: Value, stride: Value = None, padding_: Value = 0,
                 ceil_mode: Value = False, count_include_pad: Value = True, divisor_override: Value = None) -> Value:
    """The mean of each window, with torch's arguments."""
    count = {"AvgPool1D": 1, "AvgPool2D": 2}.get(b.node.primitive if b.node else "", 3)
    pads = spatial(padding_, count, "the padding")
    return _averaged(b, b.tensor(input), divisor_override, count_include_pad, ceil_mode,
                     _window(kernel_size, stride, count), {"pads": [*pads, *pads]})


@lowers("MaxPoolWithArgmaxV2")
def max_pool_argmax(b: Builder, x: Value, *, kernel_size: Value, strides: Value = None, pads: Value = 0,
                    dilation: Value = 1, ceil_mode: Value = False) -> Value:
    """The largest element of each window and where in its plane it is."""
    return _with_indices(b, b.tensor(x), kernel_size, strides, pads, dilation, ceil_mode)


@lowers("MaxPoolWithMask", "MaxPoolWithIndices")
def max_pool_indices(b: Builder, x: Value, kernel_size: Value, strides: Value = None, pads: Value = 0,
                     dilation: Value = 1, ceil_mode: Value = False, *rest: Value) -> Value:
    """The largest element of each window and where in its plane it is."""
    return _with_indices(b, b.tensor(x), kernel_size, strides, pads, dilation, ceil_mode)


@lowers("MaxPool3DWithArgmax")
def max_pool_argmax_3d(b: Builder, x: Value, *, ksize: Value, strides: Value = None, pads: Value = 0,
                       dilation: Value = 1, ceil_mode: Value = False) -> Value:
    """The largest element of each window and where in its volume it is."""
    return _with_indices(b, b.tensor(x), ksize, strides, pads, dilation, ceil_mode, 3)


@lowers("MaxPoolWithArgmax")
def max_pool_argmax_old(b: Builder, x: Value, *, kernel_size: Value, strides: Value = None,
                        pad_mode: Value = "valid") -> Value:
    """The largest element of each window and where in its sample it is; windows are written (1, h, w, 1)."""
    tensor, window = b.tensor(x), _window(kernel_size, strides, 2, last=True)
    y, at = _both(b, tensor, **window, **padding(pad_mode))
    return y, b.op("Mod", at, _product(b, dims(b, tensor)[1:]))


def _with_indices(b: Builder, x: Tensor, kernel: Value, strides: Value, pads: Value, dilation: Value,
                  ceil_mode: Value, count: int = 2) -> tuple[Tensor, Tensor]:
    around = spatial(pads, count, "the padding")
    y, at = _both(b, x, **_window(kernel, strides, count), pads=[*around, *around], ceil_mode=int(bool(ceil_mode)),
                  dilations=spatial(dilation, count, "the dilation"))
    return y, b.op("Mod", at, _product(b, dims(b, x)[2:]))  # ONNX counts through the whole tensor


def _both(b: Builder, x: Tensor, **attributes: Any) -> tuple[Tensor, Tensor]:
    y, at = b.op("MaxPool", x, outputs=2, types=[TensorType(x.dtype, None), TensorType(_INT64, None)], **attributes)
    return y, at


def _product(b: Builder, sizes: tuple[Value, ...]) -> Value:
    """How many elements sizes make, known now or at run time."""
    if all(isinstance(size, int) for size in sizes):
        return int(np.prod(sizes))
    return b.op("ReduceProd", b.ints(sizes), keepdims=0)
