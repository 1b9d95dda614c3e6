"""Convolutions: those of known padding or SAME; linear.py folds a BiasAdd into them."""

from __future__ import annotations

from ..builder import (
    Builder,
    OnnxTensor,
    Padding,
    Value,
    at_run_time,
    integer,
    integers,
    is_channels_last,
    known,
    lowers,
    padding,
    spatial,
    symmetric,
    to_channels_first,
    to_channels_last,
    without_ends,
)
from .conv_transpose import conv_transpose_ext, convolved


@lowers("Conv2D", count=2, depthwise=False)
@lowers("Conv3D", count=3, depthwise=False)
@lowers("DepthwiseConv2dNative", count=2, depthwise=True)
def conv(
    b: Builder,
    x: Value,
    weight: Value,
    *,
    kernel_size: Value,
    pad_mode: Value = "valid",
    stride: Value = 1,
    dilation: Value = 1,
    group: int = 1,
    groups: int = 1,
    pad_list: Value = (),
    format: Value = "NCHW",
    data_format: Value = "NCHW",
    count: int,
    depthwise: bool,
) -> Value:
    """A convolution whose padding is known, or SAME by TensorFlow's rule."""
    last = is_channels_last(format, data_format)
    x, w = b.tensor(x), b.tensor(weight)
    if last:
        x, w = to_channels_first(b, x), to_channels_first(b, w)
        stride, dilation = without_ends(stride, count), without_ends(dilation, count)
    strides, dilations = spatial(stride, count, "the stride"), spatial(dilation, count, "dilation")
    kernel = spatial(kernel_size, count, "kernel_size")
    pads = convolution_pads(x, pad_mode, integers(pad_list, "pad_list"), kernel, strides, dilations)
    group = max(group, groups)
    if depthwise:  # its one weight for each channel is [1, channels, ...]
        group, w = known(x, 1), b.op("Transpose", w, perm=[1, 0, 2, 3])
    y = b.op("Conv", x, w, strides=strides, dilations=dilations, group=group, **pads)
    return to_channels_last(b, y, count) if last else y


def convolution_pads(
    x: OnnxTensor,
    mode: Value,
    pad_list: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Padding:
    """SAME with a dilation, which onnxruntime refuses, needs no size where the stride is 1.

    A recorded padding for SAME holds only where the size was known: else the exporter writes -1 or
    0.
    """
    known_size = x.shape is not None and -1 not in x.shape[2:]
    same = str(mode).lower() == "same"
    if same and not known_size:
        pad_list = ()
    if min(pad_list, default=-1) >= 0 or not same or set(dilations) == {1}:
        return padding(mode, pad_list)
    total = [
        _same(x, axis, k, s, d)
        for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True))
    ]
    return {"pads": [*(t // 2 for t in total), *(t - t // 2 for t in total)]}


def _same(x: OnnxTensor, axis: int, kernel: int, stride: int, dilation: int) -> int:
    reach = (kernel - 1) * dilation
    if stride == 1:
        return reach
    size = known(x, axis + 2)
    return max(0, (-(-size // stride) - 1) * stride + reach + 1 - size)


@lowers("Conv2DExt", "Conv1DExt", "Conv3DExt", "Convolution")
def conv_ext(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value = None,
    stride: Value = 1,
    padding: Value = 0,
    dilation: Value = 1,
    *rest: Value,
) -> Value:
    """A convolution with torch's arguments.

    Convolution has (transposed, output_padding, groups) at the end.
    """
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    group = integer(rest[-1], "groups") if rest else 1
    if len(rest) == 3 and rest[0]:
        return conv_transpose_ext(b, x, w, bias, stride, padding, rest[1], group, dilation)
    if at_run_time(padding):  # of a kernel of unknown size
        ends = b.ints(padding * (2 if len(padding) == count else 2 * count))
        x, padding = b.op("Pad", x, ends, None, tuple(range(2, w.rank))), 0
    return convolved(b, "Conv", x, w, bias, stride, dilation, group, symmetric(padding, count))


@lowers("Conv2DPadding", "Conv1DPadding", "Conv3DPadding")
def conv_padding(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value = None,
    stride: Value = 1,
    pad_mode: Value = 2,
    dilation: Value = 1,
    groups: Value = 1,
) -> Value:
    """A convolution with padding `same` or `valid`."""
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    dilations = spatial(dilation, count, "the dilation")
    mode = {1: "same", 2: "valid"}.get(pad_mode, pad_mode)
    pads = convolution_pads(x, mode, (), (w.shape or ())[2:], (1,) * count, dilations)
    return convolved(b, "Conv", x, w, bias, stride, dilations, groups, pads)
