"""Convolutions of .ms files: channels last, weights [out, h, w, in], a bias and an activation.

They are ONNX's Conv and ConvTranspose. Padding of the mode SAME is TensorFlow's, from the sizes.
"""

from __future__ import annotations

import numpy as np

from ..builder import Builder, OnnxTensor, Padding, Value, known, lowers, moderate, spatial
from ..primitives.conv import convolution_pads
from ..primitives.conv_transpose import convolved
from .activation import activated
from .layout import channels_first, channels_last, is_last


@lowers("Lite.Conv2DFusion")
def conv(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    format: str,
    stride: Value,
    dilation: Value,
    pad_mode: str,
    pad_list: Value,
    group: int,
    activation_type: str,
) -> Value:
    """A convolution; the bias and the activation are part of it."""
    last = is_last(format)
    tensor, w = _image(b, x, last), _image(b, weight, last)
    kernel = (w.shape or ())[2:]
    strides = spatial(stride or 1, 2, "the stride")
    dilations = spatial(dilation or 1, 2, "the dilation")
    given = () if pad_mode == "SAME" else pad_list or (0, 0, 0, 0)
    pads = convolution_pads(tensor, pad_mode.lower(), given, kernel, strides, dilations)
    y = convolved(b, "Conv", tensor, w, bias, strides, dilations, max(group, 1), pads)
    return _end(b, y, activation_type, last)


@lowers("Lite.Conv2dTransposeFusion")
def conv_transpose(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    format: str,
    stride: Value,
    dilation: Value,
    pad_mode: str,
    pad_list: Value,
    group: int,
    activation_type: str,
    output_paddings: Value,
) -> Value:
    """A transposed convolution: weights are [in, h, w, out / group]."""
    last = is_last(format)
    tensor, w = _image(b, x, last), _image(b, weight, last)
    strides = spatial(stride or 1, 2, "the stride")
    dilations = spatial(dilation or 1, 2, "the dilation")
    pads = _transposed_pads(w, strides, dilations, pad_mode, pad_list, output_paddings)
    y = convolved(b, "ConvTranspose", tensor, w, bias, strides, dilations, max(group, 1), pads)
    return _end(b, y, activation_type, last)


def _transposed_pads(
    w: OnnxTensor,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    mode: str,
    pad_list: Value,
    output_paddings: Value,
) -> Padding:
    """SAME gives `stride` times the size, VALID pads nothing."""
    extra = spatial(output_paddings or 0, 2, "output_paddings")
    if mode == "PAD" or (mode == "VALID" and not any(pad_list)):
        top, bottom, left, right = pad_list or (0, 0, 0, 0)
        return {"pads": [top, left, bottom, right], "output_padding": extra}
    if mode == "VALID":
        return {"pads": [0, 0, 0, 0], "output_padding": extra}
    kernel = (w.shape or ())[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    cut = [max(0, size - step) for size, step in zip(reach, strides, strict=True)]
    more = [max(0, step - size) for size, step in zip(reach, strides, strict=True)]
    return {
        "pads": [*(c // 2 for c in cut), *(c - c // 2 for c in cut)],
        "output_padding": more,
    }


def _image(b: Builder, x: Value, last: bool) -> OnnxTensor:
    return channels_first(b, x) if last else b.tensor(x)


def _end(b: Builder, y: OnnxTensor, activation: str, last: bool) -> OnnxTensor:
    y = activated(b, y, activation)
    return channels_last(b, y) if last else y


@lowers("Lite.AdderFusion")
def adder(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    format: str,
    stride: Value,
    dilation: Value,
    pad_mode: str,
    pad_list: Value,
    group: int,
    activation_type: str,
) -> Value:
    """AdderNet's layer: of each window the sum of differences from the weight, negative."""
    last = is_last(format)
    tensor, w = _image(b, x, last), _image(b, weight, last)
    out, channels, *kernel = (known(w, axis) for axis in range(4))
    if group > 1:
        raise ValueError(f"{group} groups are not supported, expected 1")
    strides = spatial(stride or 1, 2, "the stride")
    dilations = spatial(dilation or 1, 2, "the dilation")
    given = () if pad_mode == "SAME" else pad_list or (0, 0, 0, 0)
    pads = convolution_pads(tensor, pad_mode.lower(), given, tuple(kernel), strides, dilations)
    size = moderate(channels * kernel[0] * kernel[1], "the elements of a window", 1 << 13)
    pick = np.eye(size, dtype=tensor.dtype).reshape(size, channels, *kernel)
    windows = convolved(b, "Conv", tensor, b.tensor(pick), None, strides, dilations, 1, pads)
    gaps = b.op("Sub", b.op("Unsqueeze", windows, (1,)), b.op("Reshape", w, (1, out, size, 1, 1)))
    y = b.op("Neg", b.op("ReduceSum", b.op("Abs", gaps), (2,), keepdims=0))
    y = y if bias is None else b.op("Add", y, b.op("Reshape", b.tensor(bias), (1, -1, 1, 1)))
    return _end(b, y, activation_type, last)
