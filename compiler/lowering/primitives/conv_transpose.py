"""Transposed convolutions: padding and output padding in the form of ONNX."""

from __future__ import annotations

from ...element_types.value_types import TensorType
from ..builder import (
    Builder,
    OnnxTensor,
    Padding,
    Value,
    integer,
    integers,
    known,
    lowers,
    require_channels_first,
    spatial,
    symmetric,
)


def convolved(
    b: Builder,
    op_type: str,
    x: OnnxTensor,
    w: OnnxTensor,
    bias: Value,
    stride: Value,
    dilation: Value,
    groups: Value,
    pads: Padding,
) -> OnnxTensor:
    """A convolution (Conv) or a transposed one (ConvTranspose), with or without a bias."""
    count = w.rank - 2
    inputs = (x, w) if bias is None else (x, w, b.tensor(bias))
    return b.op(
        op_type,
        *inputs,
        strides=spatial(stride, count, "the stride"),
        dilations=spatial(dilation, count, "the dilation"),
        group=integer(groups, "groups"),
        **pads,
    )


@lowers("ConvTranspose2D")
def conv_transpose_ext(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value = None,
    stride: Value = 1,
    padding: Value = 0,
    output_padding: Value = 0,
    groups: Value = 1,
    dilation: Value = 1,
) -> Value:
    """A transposed convolution with torch's arguments."""
    x, w = b.tensor(input), b.tensor(weight)
    count = w.rank - 2
    pads = symmetric(padding, count)
    pads["output_padding"] = spatial(output_padding, count, "output_padding")
    return convolved(b, "ConvTranspose", x, w, bias, stride, dilation, groups, pads)


@lowers("Conv2DTranspose", "Conv2DBackpropInput")
def conv_transpose(
    b: Builder,
    dout: Value,
    weight: Value,
    input_size: Value = None,
    *,
    pad_list: Value = (),
    pad_mode: Value = "pad",
    stride: Value = 1,
    dilation: Value = 1,
    group: int = 1,
    groups: int = 1,
    format: Value = "NCHW",
) -> Value:
    """The transposed convolution; output_padding is the rest of the size given or recorded."""
    require_channels_first(format)
    return _transposed(
        b,
        b.tensor(dout),
        b.tensor(weight),
        input_size,
        spatial(stride, 2, "the stride"),
        spatial(dilation, 2, "the dilation"),
        pad_mode,
        integers(pad_list, "pad_list"),
        max(group, groups),
    )


@lowers("Conv3DTranspose")
def conv_transpose_3d(
    b: Builder,
    dout: Value,
    weight: Value,
    *,
    pad_list: Value = (),
    pad_mode: Value = "pad",
    strides: Value = 1,
    dilations: Value = 1,
    group: int = 1,
    groups: int = 1,
    output_padding: Value = 0,
    format: Value = "NCDHW",
) -> Value:
    """The transposed convolution in three dimensions."""
    require_channels_first(format)
    return _transposed(
        b,
        b.tensor(dout),
        b.tensor(weight),
        None,
        spatial(strides, 3, "the stride"),
        spatial(dilations, 3, "the dilation"),
        pad_mode,
        integers(pad_list, "pad_list"),
        max(group, groups),
        spatial(output_padding, 3, "output_padding"),
    )


def _transposed(
    b: Builder,
    x: OnnxTensor,
    w: OnnxTensor,
    size: Value,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    mode: Value,
    pads: tuple[int, ...],
    group: int,
    extra: tuple[int, ...] = (),
) -> OnnxTensor:
    """A transposed convolution whose padding is known, or SAME, which needs no size.

    SAME gives `stride` times the size of x.
    """
    count, same = len(strides), str(mode).lower() == "same"
    if same and (min(pads, default=-1) < 0 or x.shape is None or -1 in x.shape[2:]):
        pads, extra = _same_transposed(w, strides, dilations)
    if len(pads) != 2 * count or min(pads) < 0:
        raise ValueError(f"a transposed convolution needs known padding, not {mode} {list(pads)}")
    extra = extra or tuple(
        _left_over(b, x, w, size, axis, strides[axis], dilations[axis], pads)
        for axis in range(count)
    )
    return b.op(
        "ConvTranspose",
        x,
        w,
        strides=strides,
        dilations=dilations,
        group=group,
        pads=[*pads[0::2], *pads[1::2]],
        output_padding=extra,
    )


def _same_transposed(
    w: OnnxTensor, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(pads, output_padding) of SAME: (before, behind) per axis, and what is missing behind."""
    reach = [
        (known(w, axis + 2) - 1) * dilation + 1 - stride
        for axis, (stride, dilation) in enumerate(zip(strides, dilations, strict=True))
    ]
    halves = [(max(total, 0) // 2, max(total, 0)) for total in reach]
    pads = tuple(side for half, total in halves for side in (half, total - half))
    return pads, tuple(max(-total, 0) for total in reach)


def _left_over(
    b: Builder,
    x: OnnxTensor,
    w: OnnxTensor,
    size: Value,
    axis: int,
    stride: int,
    dilation: int,
    pads: tuple[int, ...],
) -> int:
    wanted = _wanted(b, size, axis)
    if wanted < 0 or x.shape is None or x.shape[axis + 2] < 0:
        return 0
    natural = (x.shape[axis + 2] - 1) * stride + (known(w, axis + 2) - 1) * dilation + 1
    return max(0, wanted - (natural - pads[2 * axis] - pads[2 * axis + 1]))


def _wanted(b: Builder, size: Value, axis: int) -> int:
    if isinstance(size, tuple) and isinstance(size[axis - 2], int):
        return int(size[axis - 2])
    kind = b.result_type
    return kind.shape[axis + 2] if isinstance(kind, TensorType) and kind.shape else -1
