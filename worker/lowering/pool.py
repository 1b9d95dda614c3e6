"""Pooling over windows, fixed or adaptive."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mindir.graph import TensorType
from .arguments import channels_first, integers, known, moderate, padding, spatial
from .builder import Builder, Tensor, Value
from .registry import lowers

_INT64 = np.dtype(np.int64)


@lowers("MaxPool", "MaxPool3D")
def max_pool(b: Builder, x: Value, *, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
             pad_list: Value = (), ceil_mode: Value = False, format: Value = "NCHW",
             data_format: Value = "NCHW") -> Value:
    """The largest element of each window."""
    channels_first(format)
    count = 3 if b.node and b.node.primitive == "MaxPool3D" else 2
    return b.op("MaxPool", b.tensor(x), **_window(kernel_size, strides, count), ceil_mode=int(bool(ceil_mode)),
                **padding(pad_mode, integers(pad_list, "pad_list")))


def _window(kernel: Value, strides: Value, count: int) -> dict[str, Any]:
    sizes = spatial(kernel, count, "kernel_size")
    steps = spatial(strides, count, "the strides") if strides not in (None, ()) else sizes
    return {"kernel_shape": sizes, "strides": steps}


@lowers("AvgPool")
def avg_pool(b: Builder, x: Value, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
             data_format: Value = "NCHW", *, pad_list: Value = (), format: Value = "NCHW") -> Value:
    """The mean of each window, padding not counted."""
    channels_first(data_format)
    channels_first(format)
    return b.op("AveragePool", b.tensor(x), **_window(kernel_size, strides, 2),
                **padding(pad_mode, integers(pad_list, "pad_list")))


@lowers("AvgPool3D")
def avg_pool_3d(b: Builder, x: Value, *, kernel_size: Value, strides: Value = 1, pad_mode: Value = "valid",
                pad_list: Value = (), ceil_mode: Value = False, count_include_pad: Value = True,
                divisor_override: int = 0) -> Value:
    """The mean of each window in three dimensions."""
    if divisor_override:
        raise ValueError("divisor_override is not supported")
    return b.op("AveragePool", b.tensor(x), **_window(kernel_size, strides, 3), ceil_mode=int(bool(ceil_mode)),
                count_include_pad=int(bool(count_include_pad)), **padding(pad_mode, integers(pad_list, "pad_list")))


@lowers("AvgPool2D", "AvgPool1D", "AvgPool3DExt")
def avg_pool_ext(b: Builder, input: Value, kernel_size: Value, stride: Value = None, padding_: Value = 0,
                 ceil_mode: Value = False, count_include_pad: Value = True, divisor_override: Value = None) -> Value:
    """The mean of each window, with torch's arguments."""
    if divisor_override:
        raise ValueError("divisor_override is not supported")
    count = {"AvgPool1D": 1, "AvgPool2D": 2}.get(b.node.primitive if b.node else "", 3)
    pads = spatial(padding_, count, "the padding")
    return b.op("AveragePool", b.tensor(input), **_window(kernel_size, stride, count), pads=[*pads, *pads],
                ceil_mode=int(bool(ceil_mode)), count_include_pad=int(bool(count_include_pad)))


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


def _with_indices(b: Builder, x: Tensor, kernel: Value, strides: Value, pads: Value, dilation: Value,
                  ceil_mode: Value) -> tuple[Tensor, Tensor | None]:
    around = spatial(pads, 2, "the padding")
    attributes = {**_window(kernel, strides, 2), "pads": [*around, *around], "ceil_mode": int(bool(ceil_mode)),
                  "dilations": spatial(dilation, 2, "the dilation")}
    y: Tensor = b.op("MaxPool", x, **attributes)
    if not x.static:
        return y, None
    _, at = b.op("MaxPool", x, outputs=2, types=[TensorType(x.dtype, None), TensorType(_INT64, None)], **attributes)
    return y, b.op("Mod", at, known(x, 2) * known(x, 3))  # ONNX counts through the whole tensor


@lowers("Im2Col")
def im2col(b: Builder, x: Value, *, ksizes: Value, strides: Value = 1, dilations: Value = 1, pads: Value = 0,
           padding_mode: str = "CALCULATED") -> Value:
    """All windows as columns: [batch, channels, kernel, windows]."""
    windows = [spatial(value, 2, "a window argument") for value in (ksizes, strides, dilations, pads)]
    if padding_mode.upper() != "CALCULATED":
        raise ValueError(f"the padding mode {padding_mode} is not supported")
    return unfolded(b, b.tensor(x), windows)


@lowers("Im2ColExt")
def im2col_ext(b: Builder, input: Value, kernel_size: Value, dilation: Value = 1, padding_: Value = 0,
               stride: Value = 1) -> Value:
    """All windows as columns: [batch, channels * kernel, windows]."""
    x = b.tensor(input)
    windows = [spatial(value, 2, "a window argument") for value in (kernel_size, stride, dilation, padding_)]
    columns = unfolded(b, x, windows)
    return b.op("Reshape", columns, (0, known(x, 1) * windows[0][0] * windows[0][1], -1))


@lowers("Col2ImExt")
def col2im_ext(b: Builder, input: Value, output_size: Value, kernel_size: Value, dilation: Value = 1,
               padding_: Value = 0, stride: Value = 1) -> Value:
    """Columns added up where their windows lie in the image."""
    size, kernel, dilations, pads, strides = (
        spatial(value, 2, "a window argument") for value in (output_size, kernel_size, dilation, padding_, stride))
    return b.op("Col2Im", b.tensor(input), size, kernel, dilations=dilations, pads=[*pads, *pads], strides=strides)


@lowers("Col2Im")
def col2im(b: Builder, x: Value, output_size: Value, *, kernel_size: Value, dilation: Value = 1, padding: Value = 0,
           stride: Value = 1) -> Value:
    """Columns [batch, channels, kernel, windows] added up where their windows lie in an image of constant size."""
    tensor = b.tensor(x)
    flat = b.op("Reshape", tensor, (0, known(tensor, 1) * known(tensor, 2), -1))
    return col2im_ext(b, flat, integers(output_size, "output_size"), kernel_size, dilation, padding, stride)


def unfolded(b: Builder, x: Tensor, windows: list[tuple[int, ...]]) -> Tensor:
    """All windows (kernel, stride, dilation, padding) as columns: [batch, channels, kernel, windows]."""
    (kh, kw), (sh, sw), (dh, dw), (ph, pw) = windows
    height, width = known(x, 2) + 2 * ph, known(x, 3) + 2 * pw
    moderate(height * width * kh * kw, "the number of window elements")
    rows = _taps(height, kh, sh, dh)[:, None, :, None]
    columns = _taps(width, kw, sw, dw)[None, :, None, :]
    where = (rows * width + columns).reshape(kh * kw, -1)
    padded = b.op("Pad", x, (ph, pw, ph, pw), None, (2, 3)) if ph or pw else x
    plane = b.op("Reshape", padded, (0, 0, -1))
    result: Tensor = b.op("Gather", plane, where, axis=2)
    return result


def _taps(size: int, kernel: int, stride: int, dilation: int) -> np.ndarray[Any, Any]:
    starts = np.arange(0, size - (kernel - 1) * dilation, stride)
    return np.arange(kernel)[:, None] * dilation + starts[None, :]
