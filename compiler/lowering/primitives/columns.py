"""Columns: windows of an image as columns or patches, and back."""

from __future__ import annotations

from math import prod

import numpy as np

from ..builder import (
    Builder,
    OnnxTensor,
    Padding,
    Value,
    dims,
    integers,
    lowers,
    moderate,
    padding,
    spatial,
    symmetric,
    times,
)


@lowers("Im2Col")
def im2col(
    b: Builder,
    x: Value,
    *,
    ksizes: Value,
    strides: Value = 1,
    dilations: Value = 1,
    pads: Value = 0,
    padding_mode: str = "CALCULATED",
) -> Value:
    """All windows as columns: [batch, channels, kernel, windows]."""
    if padding_mode.upper() != "CALCULATED":
        raise ValueError(f"the padding mode {padding_mode} is not supported")
    return _unfolded(b, b.tensor(x), ksizes, strides, dilations, pads)


@lowers("Im2ColExt")
def im2col_ext(
    b: Builder,
    input: Value,
    kernel_size: Value,
    dilation: Value = 1,
    padding: Value = 0,
    stride: Value = 1,
) -> Value:
    """All windows as columns: [batch, channels * kernel, windows]."""
    x = b.tensor(input)
    columns = _unfolded(b, x, kernel_size, stride, dilation, padding)
    rows = times(b, dims(b, x)[1], prod(spatial(kernel_size, 2, "kernel_size")))
    return b.op("Reshape", columns, b.tensor((0, rows, -1)))


def _unfolded(
    b: Builder, x: OnnxTensor, kernel: Value, stride: Value, dilation: Value, pads: Value
) -> OnnxTensor:
    """[batch, channels, kernel, windows]: every window."""
    found = _window_elements(b, x, kernel, stride, dilation, symmetric(pads, 2))
    count = prod(spatial(kernel, 2, "the kernel"))
    return b.op("Reshape", found, b.tensor((*dims(b, x)[:2], count, -1)))


def _window_elements(
    b: Builder, x: OnnxTensor, kernel: Value, stride: Value, dilation: Value, pads: Padding
) -> OnnxTensor:
    """[batch * channels, kernel, rows, columns]: one plane for each element of a window.

    A convolution of every channel by itself, with one kernel per element, each of a single 1. So
    sizes need not be known.
    """
    kh, kw = spatial(kernel, 2, "the kernel")
    moderate((kh * kw) ** 2, "the square of the kernel's size")
    planes = b.op("Reshape", x, b.tensor((-1, 1, *dims(b, x)[2:])))
    ones = np.eye(kh * kw, dtype=x.dtype).reshape(kh * kw, 1, kh, kw)
    strides, dilations = spatial(stride, 2, "the stride"), spatial(dilation, 2, "the dilation")
    return b.op("Conv", planes, ones, strides=strides, dilations=dilations, **pads)


@lowers("ExtractImagePatches")
def extract_image_patches(
    b: Builder,
    input_x: Value,
    ksizes: Value,
    strides: Value = 1,
    rates: Value = 1,
    padding_: Value = 2,
) -> Value:
    """[batch, kernel * channels, rows, columns]: patches as TensorFlow cuts them out.

    The channels of one kernel element lie side by side.
    """
    x, count = b.tensor(input_x), prod(spatial(ksizes, 2, "ksizes"))
    dilations, pads = spatial(rates, 2, "the rates"), padding(padding_)
    if "auto_pad" in pads and pads["auto_pad"] == "SAME_UPPER" and set(dilations) != {1}:
        raise ValueError(f"patches with the rates {dilations} and padding SAME are not supported")
    found = _window_elements(b, x, ksizes, strides, dilations, pads)
    batch, channels = dims(b, x)[:2]
    apart = b.op("Reshape", found, b.tensor((batch, channels, count, -1)))
    sizes = b.op("Slice", b.op("Shape", found), (2,), (4,))
    target = b.op("Concat", b.tensor((batch, times(b, channels, count))), sizes, axis=0)
    return b.op("Reshape", b.op("Transpose", apart, perm=[0, 2, 1, 3]), target)


@lowers("Col2ImExt")
def col2im_ext(
    b: Builder,
    input: Value,
    output_size: Value,
    kernel_size: Value,
    dilation: Value = 1,
    padding: Value = 0,
    stride: Value = 1,
) -> Value:
    """Columns added up where their windows lie in the image."""
    size, kernel, dilations, strides = (
        spatial(value, 2, "a window argument")
        for value in (output_size, kernel_size, dilation, stride)
    )
    return b.op(
        "Col2Im",
        b.tensor(input),
        size,
        kernel,
        dilations=dilations,
        strides=strides,
        **symmetric(padding, 2),
    )


@lowers("Col2Im")
def col2im(
    b: Builder,
    x: Value,
    output_size: Value,
    *,
    kernel_size: Value,
    dilation: Value = 1,
    padding: Value = 0,
    stride: Value = 1,
) -> Value:
    """Columns [batch, channels, kernel, windows] as Col2ImExt has them, for a constant size."""
    tensor = b.tensor(x)
    rows = times(b, dims(b, tensor)[1], prod(spatial(kernel_size, 2, "kernel_size")))
    flat = b.op("Reshape", tensor, b.tensor((0, rows, -1)))
    size = integers(output_size, "output_size")
    return col2im_ext(b, flat, size, kernel_size, dilation, padding, stride)
