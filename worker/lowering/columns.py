"""Windows of an image as columns, and back."""

from __future__ import annotations

import numpy as np

from .arguments import integers, moderate, spatial
from .builder import Builder, Tensor, Value
from .registry import lowers
from .shape import dims


@lowers("Im2Col")
def im2col(b: Builder, x: Value, *, ksizes: Value, strides: Value = 1, dilations: Value = 1, pads: Value = 0,
           padding_mode: str = "CALCULATED") -> Value:
    """All windows as columns: [batch, channels, kernel, windows]."""
    if padding_mode.upper() != "CALCULATED":
        raise ValueError(f"the padding mode {padding_mode} is not supported")
    return _unfolded(b, b.tensor(x), ksizes, strides, dilations, pads)


@lowers("Im2ColExt")
def im2col_ext(b: Builder, input: Value, kernel_size: Value, dilation: Value = 1, padding: Value = 0,
               stride: Value = 1) -> Value:
    """All windows as columns: [batch, channels * kernel, windows]."""
    x = b.tensor(input)
    columns = _unfolded(b, x, kernel_size, stride, dilation, padding)
    count, channels = int(np.prod(spatial(kernel_size, 2, "kernel_size"))), dims(b, x)[1]
    rows = channels * count if isinstance(channels, int) else b.op("Mul", channels, count)
    return b.op("Reshape", columns, b.tensor((0, rows, -1)))


def _unfolded(b: Builder, x: Tensor, kernel: Value, stride: Value, dilation: Value, padding: Value) -> Tensor:
    """Every window, by a convolution with one kernel per element, each of a single 1: sizes need not be known."""
    kh, kw = spatial(kernel, 2, "the kernel")
    moderate((kh * kw) ** 2, "the square of the kernel's size")
    pads = spatial(padding, 2, "the padding")
    planes = b.op("Reshape", x, b.tensor((-1, 1, *dims(b, x)[2:])))
    ones = np.eye(kh * kw, dtype=x.dtype).reshape(kh * kw, 1, kh, kw)
    found = b.op("Conv", planes, ones, strides=spatial(stride, 2, "the stride"), pads=[*pads, *pads],
                 dilations=spatial(dilation, 2, "the dilation"))
    result: Tensor = b.op("Reshape", found, b.tensor((*dims(b, x)[:2], kh * kw, -1)))
    return result


@lowers("Col2ImExt")
def col2im_ext(b: Builder, input: Value, output_size: Value, kernel_size: Value, dilation: Value = 1,
               padding: Value = 0, stride: Value = 1) -> Value:
    """Columns added up where their windows lie in the image."""
    size, kernel, dilations, pads, strides = (
        spatial(value, 2, "a window argument") for value in (output_size, kernel_size, dilation, padding, stride))
    return b.op("Col2Im", b.tensor(input), size, kernel, dilations=dilations, pads=[*pads, *pads], strides=strides)


@lowers("Col2Im")
def col2im(b: Builder, x: Value, output_size: Value, *, kernel_size: Value, dilation: Value = 1, padding: Value = 0,
           stride: Value = 1) -> Value:
    """Columns [batch, channels, kernel, windows] added up where their windows lie in an image of constant size."""
    tensor = b.tensor(x)
    count, channels = int(np.prod(spatial(kernel_size, 2, "kernel_size"))), dims(b, tensor)[1]
    rows = channels * count if isinstance(channels, int) else b.op("Mul", channels, count)
    flat = b.op("Reshape", tensor, b.tensor((0, rows, -1)))
    return col2im_ext(b, flat, integers(output_size, "output_size"), kernel_size, dilation, padding, stride)
