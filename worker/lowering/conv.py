"""Convolutions; a BiasAdd behind one becomes its bias (linear.py)."""

from __future__ import annotations

from typing import Any

from ..mindir.graph import TensorType
from .arguments import at_run_time, channels_first, integer, integers, known, padding, spatial
from .builder import Builder, Tensor, Value
from .layouts import channels_last, middle, to_first, to_last
from .registry import lowers


@lowers("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def conv(b: Builder, x: Value, weight: Value, *, kernel_size: Value, pad_mode: Value = "valid", stride: Value = 1,
         dilation: Value = 1, group: int = 1, groups: int = 1, pad_list: Value = (), format: Value = "NCHW",
         data_format: Value = "NCHW") -> Value:
    """A convolution whose padding is known, or SAME by TensorFlow's rule."""
    last = channels_last(format, data_format)
    x, w = (to_first(b, b.tensor(value)) if last else b.tensor(value) for value in (x, weight))
    count = 3 if b.node and b.node.primitive == "Conv3D" else 2
    depthwise = b.node is not None and b.node.primitive == "DepthwiseConv2dNative"
    stride, dilation = (middle(value, count) if last else value for value in (stride, dilation))
    strides, dilations = spatial(stride, count, "the stride"), spatial(dilation, count, "the dilation")
    kernel = spatial(kernel_size, count, "kernel_size")
    pads = _pads(x, pad_mode, integers(pad_list, "pad_list"), kernel, strides, dilations)
    group = max(group, groups)
    if depthwise:  # its one weight for each channel is [1, channels, ...]
        group, w = known(x, 1), b.op("Transpose", w, perm=[1, 0, 2, 3])
    y = b.op("Conv", x, w, strides=strides, dilations=dilations, group=group, **pads)
    return to_last(b, y, count) if last else y


def _pads(x: Tensor, mode: Value, pad_list: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...],
          dilations: tuple[int, ...]) -> dict[str, Any]:
    """SAME with a dilation, which onnxruntime refuses, needs no size where the stride is 1.

    A recorded padding for SAME holds only where the size was known: else the exporter writes -1, or 0.
    """
    known_size = x.shape is not None and -1 not in x.shape[2:]
    same = str(mode).lower() == "same"
    if same and not known_size:
        pad_list = ()
    if min(pad_list, default=-1) >= 0 or not same or set(dilations) == {1}:
        return padding(mode, pad_list)
    total = [_same(x, axis, k, s, d) for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True))]
    return {"pads": [*(t // 2 for t in total), *(t - t // 2 for t in total)]}


def _same(x: Tensor, axis: int, kernel: int, stride: int, dilation: int) -> int:
    reach = (kernel - 1) * dilation
    if stride == 1:
        return reach
    size = known(x, axis + 2)
    return max(0, (-(-size // stride) - 1) * stride + reach + 1 - size)


@lowers("Conv2DExt", "Conv1DExt", "Conv3DExt", "Convolution")
def conv_ext(b: Builder, input: Value, weight: Value, bias: Value = None, stride: Value = 1, padding: Value = 0,
             dilation: Value = 1, *rest: Value) -> Value:
    """A convolution with torch's arguments; Convolution has (transposed, output_padding, groups) at the end."""
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    group = integer(rest[-1], "groups") if rest else 1
    if len(rest) == 3 and rest[0]:
        return conv_transpose_ext(b, x, w, bias, stride, padding, rest[1], group, dilation)
    if at_run_time(padding):  # of a kernel of unknown size
        ends = b.ints(padding * (2 if len(padding) == count else 2 * count))
        x, padding = b.op("Pad", x, ends, None, tuple(range(2, w.rank))), 0
    pads = spatial(padding, count, "the padding")
    inputs = (x, w) if bias is None else (x, w, b.tensor(bias))
    return b.op("Conv", *inputs, strides=spatial(stride, count, "the stride"), pads=[*pads, *pads], group=group,
                dilations=spatial(dilation, count, "the dilation"))


@lowers("ConvTranspose2D")
def conv_transpose_ext(b: Builder, input: Value, weight: Value, bias: Value = None, stride: Value = 1,
                       padding: Value = 0, output_padding: Value = 0, groups: Value = 1, dilation: Value = 1) -> Value:
    """A transposed convolution with torch's arguments."""
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    pads = spatial(padding, count, "the padding")
    inputs = (x, w) if bias is None else (x, w, b.tensor(bias))
    return b.op("ConvTranspose", *inputs, strides=spatial(stride, count, "the stride"), pads=[*pads, *pads],
                dilations=spatial(dilation, count, "the dilation"), group=integer(groups, "groups"),
                output_padding=spatial(output_padding, count, "output_padding"))


@lowers("Conv2DPadding", "Conv1DPadding", "Conv3DPadding")
def conv_padding(b: Builder, input: Value, weight: Value, bias: Value = None, stride: Value = 1, pad_mode: Value = 2,
                 dilation: Value = 1, groups: Value = 1) -> Value:
    """A convolution with padding `same` or `valid`."""
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    dilations = spatial(dilation, count, "the dilation")
    mode = {1: "same", 2: "valid"}.get(pad_mode, pad_mode)
    pads = _pads(x, mode, (), (w.shape or ())[2:], (1,) * count, dilations)
    inputs = (x, w) if bias is None else (x, w, b.tensor(bias))
    return b.op("Conv", *inputs, strides=spatial(stride, count, "the stride"), dilations=dilations,
                group=integer(groups, "groups"), **pads)


@lowers("Conv2DTranspose", "Conv2DBackpropInput")
def conv_transpose(b: Builder, dout: Value, weight: Value, input_size: Value = None, *, pad_list: Value = (),
                   pad_mode: Value = "pad", stride: Value = 1, dilation: Value = 1, group: int = 1, groups: int = 1,
                   format: Value = "NCHW") -> Value:
    """The transposed convolution; output_padding is what the size given or recorded leaves over."""
    channels_first(format)
    return _transposed(b, b.tensor(dout), b.tensor(weight), input_size, 2, stride, dilation, pad_mode,
                       integers(pad_list, "pad_list"), max(group, groups))


@lowers("Conv3DTranspose")
def conv_transpose_3d(b: Builder, dout: Value, weight: Value, *, pad_list: Value = (), pad_mode: Value = "pad",
                      strides: Value = 1, dilations: Value = 1, group: int = 1, groups: int = 1,
                      output_padding: Value = 0, format: Value = "NCDHW") -> Value:
    """The transposed convolution in three dimensions."""
    channels_first(format)
    extra = spatial(output_padding, 3, "output_padding")
    return _transposed(b, b.tensor(dout), b.tensor(weight), None, 3, strides, dilations, pad_mode,
                       integers(pad_list, "pad_list"), max(group, groups), extra)


def _transposed(b: Builder, x: Tensor, w: Tensor, size: Value, count: int, stride: Value, dilation: Value, mode: Value,
                pads: tuple[int, ...], group: int, extra: tuple[int, ...] = ()) -> Tensor:
    """The padding is known, or of SAME, where it does not depend on the size: `stride` times that comes out."""
    strides, dilations = spatial(stride, count, "the stride"), spatial(dilation, count, "the dilation")
    if str(mode).lower() == "same" and (min(pads, default=-1) < 0 or x.shape is None or -1 in x.shape[2:]):
        reach = [(known(w, axis + 2) - 1) * dilations[axis] + 1 - strides[axis] for axis in range(count)]
        pads = tuple(side for total in reach for side in (max(total, 0) // 2, max(total, 0) - max(total, 0) // 2))
        extra = tuple(max(-total, 0) for total in reach)
    if len(pads) != 2 * count or min(pads) < 0:
        raise ValueError(f"a transposed convolution needs known padding, not {mode} {list(pads)}")
    extra = extra or tuple(_left_over(b, x, w, size, axis, strides[axis], dilations[axis], pads)
                           for axis in range(count))
    result: Tensor = b.op("ConvTranspose", x, w, strides=strides, dilations=dilations, group=group,
                          pads=[*pads[0::2], *pads[1::2]], output_padding=extra)
    return result


def _left_over(b: Builder, x: Tensor, w: Tensor, size: Value, axis: int, stride: int, dilation: int,
               pads: tuple[int, ...]) -> int:
    wanted = _wanted(b, size, axis)
    if wanted < 0 or x.shape is None or x.shape[axis + 2] < 0:
        return 0
    natural = (x.shape[axis + 2] - 1) * stride + (known(w, axis + 2) - 1) * dilation + 1
    return max(0, wanted - (natural - pads[2 * axis] - pads[2 * axis + 1]))


def _wanted(b: Builder, size: Value, axis: int) -> int:
    if isinstance(size, tuple) and isinstance(size[axis - 2], int):
        return int(size[axis - 2])
    kind = b.node.type if b.node else None
    return kind.shape[axis + 2] if isinstance(kind, TensorType) and kind.shape else -1
