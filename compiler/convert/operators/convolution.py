"""Convolutions: products of windows of images with kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Conv")
def convolution(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    bias: MindirValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> MindirValue:
    """Of images with two dimensions, with one, whose height is 1, or with three."""
    if weight.rank not in (3, 4, 5):
        raise ValueError(f"convolutions of {weight.rank - 2} dimensions are not supported")
    places = weight.rank - 2
    steps, gaps = tuple(strides) or (1,) * places, tuple(dilations) or (1,) * places
    around = _around(x, weight, tuple(pads), auto_pad, steps, gaps)
    convolve = _volumes if places == 3 else _images
    found = convolve(c, x, weight, group, steps, gaps, around)
    return with_bias(c, found, bias)


def with_bias(c: NodeConversion, found: MindirValue, bias: MindirValue | None) -> MindirValue:
    """A number for each channel is added."""
    if bias is None:
        return found
    if len(c.shape) < 5:
        return c.apply("BiasAdd", found, bias, 0)
    return c.apply("Add", found, c.reshaped(bias, (bias.shape[0], 1, 1, 1)))


def _volumes(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    group: int,
    steps: tuple[int, ...],
    gaps: tuple[int, ...],
    around: tuple[int, ...],
) -> MindirValue:
    """A Conv3D."""
    return c.apply(
        "Conv3D",
        x,
        weight,
        data_format="NCDHW",
        dilation=(1, 1, *gaps),
        dilations=(1, 1, *gaps),
        format="NCDHW",
        group=group,
        groups=group,
        kernel_size=tuple(weight.shape[2:]),
        mode=1,
        offset_x=0,
        out_channel=weight.shape[0],
        pad=around,
        pad_list=around,
        pad_mode="pad",
        stride=(1, 1, *steps),
        strides=(1, 1, *steps),
    )


def _images(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    group: int,
    steps: tuple[int, ...],
    gaps: tuple[int, ...],
    around: tuple[int, ...],
) -> MindirValue:
    """A Conv2D; what has one dimension gets a height of 1 before, and loses it after."""
    flat = weight.rank == 3
    image, kernel = (_high(c, one) if flat else one for one in (x, weight))
    shape = c.type.shape or ()
    kind = TensorType(c.type.dtype, (*shape[:2], 1, shape[2])) if flat else c.type
    found = c.apply(
        "Conv2D",
        image,
        kernel,
        type=kind,
        dilation=(1,) * (3 if flat else 2) + gaps,
        format="NCHW",
        group=group,
        groups=group,
        kernel_size=tuple(kernel.shape[2:]),
        mode=1,
        out_channel=kernel.shape[0],
        pad=around,
        pad_list=around,
        pad_mode="pad",
        stride=(1,) * (3 if flat else 2) + steps,
    )
    return c.apply("Squeeze", found, (2,)) if flat else found


def _high(c: NodeConversion, x: MindirValue) -> MindirValue:
    """With a height of 1."""
    kind = TensorType(x.dtype, (*x.shape[:2], 1, x.shape[2]))
    return c.apply("ExpandDims", x, 2, type=kind)


def _around(
    x: MindirValue,
    weight: MindirValue,
    pads: tuple[int, ...],
    auto_pad: str,
    steps: tuple[int, ...],
    gaps: tuple[int, ...],
) -> tuple[int, ...]:
    """The padding, of each axis before and after; that of `auto_pad` is worked out."""
    places = weight.rank - 2
    before, after = list((pads or (0,) * 2 * places)[:places]), list(pads[places:]) or [0] * places
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for axis, size in enumerate(x.shape[2:]):
            if size < 0:
                raise ValueError("the size of the image is open: fix it by --inputShape")
            reach = gaps[axis] * (weight.shape[2 + axis] - 1) + 1
            total = max(0, (-(-size // steps[axis]) - 1) * steps[axis] + reach - size)
            before[axis] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after[axis] = total - before[axis]
    pairs = [size for pair in zip(before, after, strict=True) for size in pair]
    return (0,) * (4 - len(pairs)) + tuple(pairs)
