"""Transposed convolutions: each element of an image spreads over a window of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .convolution import with_bias
from .node_conversion import NodeConversion
from .registry import converts
from .shape import sizes_of


@converts("ConvTranspose")
def transposed(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    bias: MindirValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> MindirValue:
    """Of images with two dimensions, with one, whose height is 1, or with three."""
    if weight.rank not in (3, 4, 5):
        raise ValueError(f"convolutions of {weight.rank - 2} dimensions are not supported")
    places = weight.rank - 2
    axes = [
        _Axis(*one)
        for one in zip(
            weight.shape[2:],
            tuple(strides) or (1,) * places,
            tuple(dilations) or (1,) * places,
            tuple(output_padding) or (0,) * places,
            tuple(pads[:places]) or (0,) * places,
            tuple(pads[places:]) or (0,) * places,
            strict=True,
        )
    ]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER") or output_shape:
        axes = _fitted(c, x, axes, auto_pad)
    elif c.open_sizes:
        axes = [axis.without_more() for axis in axes]
    return with_bias(c, _convolved(c, x, weight, group, axes), bias)


def _convolved(
    c: NodeConversion, x: MindirValue, weight: MindirValue, group: int, axes: list[_Axis]
) -> MindirValue:
    if weight.rank == 5:
        return _volumes(c, x, weight, group, axes)
    return _images(c, x, weight, group, axes if weight.rank == 4 else [_Axis(1), *axes])


@dataclass(frozen=True, slots=True)
class _Axis:
    """One dimension of images: its window, and what is cut off before and after."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    more: int = 0
    before: int = 0
    after: int = 0

    @property
    def offset(self) -> int:
        """The size of the result, less the stride for each old place."""
        reach = (self.kernel - 1) * self.dilation + 1
        return reach + self.more - self.before - self.after - self.stride

    def without_more(self) -> _Axis:
        """The same, with less cut off after instead of padding of the result."""
        if self.more > self.after:
            raise ValueError(
                "output_padding beyond pads: fix the size of the image by --inputShape"
            )
        return replace(self, more=0, after=self.after - self.more)


def _fitted(c: NodeConversion, x: MindirValue, axes: Sequence[_Axis], auto_pad: str) -> list[_Axis]:
    """With what has to be cut off for the sizes of the result."""
    if min(x.shape[2:]) < 0 or min(c.shape[2:]) < 0:
        raise ValueError("the size of the image is open: fix it by --inputShape")
    found = []
    for axis, old, new in zip(axes, x.shape[2:], c.shape[2:], strict=True):
        whole = replace(axis, before=0, after=0)
        total = max(0, old * axis.stride + whole.offset - new)
        before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        found.append(replace(axis, before=before, after=total - before))
    return found


def _images(
    c: NodeConversion, x: MindirValue, weight: MindirValue, group: int, axes: Sequence[_Axis]
) -> MindirValue:
    """A Conv2DTranspose; what has one dimension gets a height of 1 before, and loses it after."""
    flat, shape = weight.rank == 3, c.shape
    if flat:
        x, weight = (
            c.apply("ExpandDims", one, 2, type=TensorType(one.dtype, _high(one.shape)))
            for one in (x, weight)
        )
        shape = _high(shape)
    around = tuple(size for axis in axes for size in (axis.before, axis.after))
    channels = weight.shape[1] * group
    found = c.apply(
        "Conv2DTranspose",
        x,
        weight,
        shape if min(shape) >= 0 else _computed(c, x, channels, axes),
        type=TensorType(c.type.dtype, shape),
        dilation=(1, 1, *(axis.dilation for axis in axes)),
        format="NCHW",
        group=group,
        groups=group,
        kernel_size=tuple(weight.shape[2:]),
        mode=1,
        out_channel=channels,
        pad=around,
        pad_list=around,
        pad_mode="pad",
        stride=(1, 1, *(axis.stride for axis in axes)),
    )
    return c.apply("Squeeze", found, (2,)) if flat else found


def _volumes(
    c: NodeConversion, x: MindirValue, weight: MindirValue, group: int, axes: Sequence[_Axis]
) -> MindirValue:
    """A Conv3DTranspose."""
    around = tuple(size for axis in axes for size in (axis.before, axis.after))
    dilations, strides = (
        (1, 1, *sizes)
        for sizes in ([axis.dilation for axis in axes], [axis.stride for axis in axes])
    )
    return c.apply(
        "Conv3DTranspose",
        x,
        weight,
        data_format="NCDHW",
        dilation=dilations,
        dilations=dilations,
        format="NCDHW",
        group=group,
        groups=group,
        in_channel=weight.shape[0],
        kernel_size=tuple(weight.shape[2:]),
        mode=1,
        out_channel=weight.shape[1] * group,
        output_padding=(0, 0, *(axis.more for axis in axes)),
        pad=around,
        pad_list=around,
        pad_mode="pad",
        stride=strides,
        strides=strides,
    )


def _high(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:2], 1, *shape[2:])


def _computed(
    c: NodeConversion, x: MindirValue, channels: int, axes: Sequence[_Axis]
) -> MindirValue:
    """The size of the result, of an image whose size is open."""
    kind = TensorType(dtypes.INT64, (4,))
    size = c.apply("TensorShape", x, type=kind)
    strides = np.array([1, 0, *(axis.stride for axis in axes)], np.int64)
    offsets = np.array([0, channels, *(axis.offset for axis in axes)], np.int64)
    scaled = c.apply("Mul", size, strides, type=kind)
    return sizes_of(c, c.apply("Add", scaled, offsets, type=kind), 4)
