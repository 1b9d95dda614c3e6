"""Images in .ms files: convolutions, pools and others, whose channels come last.

A transpose stands before each and another behind it, but where one of these made the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....element_types.value_types import TensorType, TupleType
from ...mindir.values import MindirValue, ResultType
from .registry import numbers, translates

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes

_LAST = (0, 2, 3, 1)


def _of_image(b: LiteNodes, kind: ResultType, made: MindirValue) -> MindirValue:
    """The image that a node made, with the channels where MindIR has them."""
    assert isinstance(kind, TensorType)
    return b.channels_first(made, kind)


def _turned(kind: ResultType) -> TensorType:
    """The type of an image with its channels last."""
    assert isinstance(kind, TensorType) and kind.shape is not None
    return TensorType(kind.dtype, tuple(kind.shape[axis] for axis in _LAST))


@translates("Conv2D")
def convolution(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    weight: MindirValue,
    *,
    dilation: Sequence[int],
    group: int,
    kernel_size: Sequence[int],
    out_channel: int,
    pad_list: Sequence[int],
    stride: Sequence[int],
    **rest: object,
) -> MindirValue:
    """A Conv2DFusion: weights are [out, height, width, in]."""
    made = b.node(
        "Conv2DFusion",
        [b.channels_last(x), b.reordered(weight, _LAST)],
        _turned(kind),
        format="NHWC",
        kernel_size=list(kernel_size),
        stride=list(stride[-2:]),
        dilation=list(dilation[-2:]),
        pad_mode="PAD",
        pad_list=list(pad_list),
        group=group,
        in_channel=weight.shape[1] * group,
        out_channel=out_channel,
    )
    found = _of_image(b, kind, made)
    b.product(found, made)
    return found


@translates("Conv2DTranspose")
def transposed(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    weight: MindirValue,
    size: MindirValue,
    *,
    dilation: Sequence[int],
    group: int,
    kernel_size: Sequence[int],
    out_channel: int,
    pad_list: Sequence[int],
    stride: Sequence[int],
    **rest: object,
) -> MindirValue:
    """A Conv2dTransposeFusion; its output_paddings give the rest of the size."""
    steps, gaps = stride[-2:], dilation[-2:]
    ends = []
    for axis in (0, 1):
        reach = gaps[axis] * (kernel_size[axis] - 1) + 1
        least = (x.shape[2 + axis] - 1) * steps[axis] + reach - sum(pad_list[2 * axis :][:2])
        ends.append(numbers(size, "the size")[2 + axis] - least)
    made = b.node(
        "Conv2dTransposeFusion",
        [b.channels_last(x), b.reordered(weight, _LAST)],
        _turned(kind),
        format="NHWC",
        kernel_size=list(kernel_size),
        stride=list(steps),
        dilation=list(gaps),
        pad_mode="PAD",
        pad_list=list(pad_list),
        group=group,
        in_channel=weight.shape[0],
        out_channel=out_channel,
        output_paddings=ends,
    )
    found = _of_image(b, kind, made)
    b.product(found, made)
    return found


@translates("BiasAdd")
def bias_add(
    b: LiteNodes, kind: ResultType, x: MindirValue, bias: MindirValue, form: MindirValue
) -> MindirValue:
    """The third input of a product before it, else an AddFusion."""
    if b.with_bias(x, bias):
        return x
    behind = x.rank - 2
    shape = TensorType(bias.dtype, (bias.shape[0],) + (1,) * behind)
    values = b.node("Reshape", [bias, (-1,) + (1,) * behind], shape) if behind else bias
    return b.node("AddFusion", [x, values], kind)


@translates("MaxPool")
def max_pool(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    **rest: object,
) -> MindirValue:
    """A MaxPoolFusion; the image has its padding."""
    return _pool(b, "MaxPoolFusion", kind, x, kernel_size[-2:], strides[-2:])


@translates("AvgPool")
def mean_pool(
    b: LiteNodes, kind: ResultType, x: MindirValue, size: MindirValue, *rest: MindirValue
) -> MindirValue:
    """An AvgPoolFusion; the image has its padding."""
    kernel = numbers(size, "the kernel")
    return _pool(b, "AvgPoolFusion", kind, x, kernel, numbers(rest[0], "the strides"))


def _pool(
    b: LiteNodes,
    primitive: str,
    kind: ResultType,
    x: MindirValue,
    kernel: Sequence[int],
    strides: Sequence[int],
) -> MindirValue:
    made = b.node(
        primitive,
        [b.channels_last(x)],
        _turned(kind),
        kernel_size=list(kernel),
        strides=list(strides),
        pad=[0, 0, 0, 0],
        pad_mode="VALID",
        format="NHWC",
    )
    return _of_image(b, kind, made)


@translates("ResizeNearestNeighborV2", method="NEAREST")
@translates("ResizeBilinearV2", method="LINEAR")
@translates("ResizeBicubic", method="CUBIC")
def resized(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    size: MindirValue,
    corners: MindirValue,
    half: MindirValue,
    *,
    method: str,
) -> MindirValue:
    """A Resize."""
    tall, wide = numbers(size, "the size")
    mode = "HALF_PIXEL" if half.constant else "ASYMMETRIC"
    made = b.node(
        "Resize",
        [b.channels_last(x)],
        _turned(kind),
        format="NHWC",
        method=method,
        new_height=tall,
        new_width=wide,
        coordinate_transform_mode="ALIGN_CORNERS" if corners.constant else mode,
        cubic_coeff=-0.75,
    )
    return _of_image(b, kind, made)


@translates("BatchNorm")
def batch_norm(b: LiteNodes, kind: ResultType, x: MindirValue, *inputs: MindirValue) -> MindirValue:
    """A FusedBatchNorm of images or of rows."""
    assert isinstance(kind, TupleType) and kind.items
    *parameters, _, epsilon, _, _ = inputs
    if x.rank not in (2, 4):
        raise ValueError(f"{x.rank} dimensions are normalised, expected 2 or 4")
    image = x.rank == 4
    first = kind.items[0]
    made = b.node(
        "FusedBatchNorm",
        [b.channels_last(x) if image else x, *parameters],
        _turned(first) if image else first,
        epsilon=float(epsilon.constant),
    )
    return b.several([_of_image(b, first, made) if image else made])


@translates("LayerNorm")
def layer_norm(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    gamma: MindirValue,
    beta: MindirValue,
    axis: MindirValue,
    params: MindirValue,
    epsilon: MindirValue,
) -> MindirValue:
    """A LayerNormFusion."""
    assert isinstance(kind, TupleType) and kind.items
    made = b.node(
        "LayerNormFusion",
        [x, gamma, beta],
        kind.items[0],
        begin_norm_axis=axis.constant,
        begin_params_axis=params.constant,
        epsilon=float(epsilon.constant),
        elementwise_affine=True,
    )
    return b.several([made])


@translates("GroupNorm")
def group_norm(
    b: LiteNodes, kind: ResultType, x: MindirValue, groups: MindirValue, *rest: MindirValue
) -> MindirValue:
    """A GroupNormFusion."""
    assert isinstance(kind, TupleType) and kind.items
    gamma, beta, epsilon = rest
    given = {"num_groups": groups.constant, "epsilon": float(epsilon.constant)}
    return b.several([b.node("GroupNormFusion", [x, gamma, beta], kind.items[0], **given)])


@translates("PadV3")
def padded(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    paddings: MindirValue,
    value: MindirValue,
    *,
    mode: str,
    **rest: object,
) -> MindirValue:
    """A PadFusion: MindIR has the paddings of the last axis first."""
    given = numbers(paddings, "the paddings")
    pairs = [(given[at], given[at + 1]) for at in range(0, len(given), 2)]
    pairs += [(0, 0)] * (x.rank - len(pairs))
    flat = tuple(number for pair in reversed(pairs) for number in pair)
    if mode == "reflect":
        return b.node("PadFusion", [x, flat], kind, padding_mode="REFLECT")
    if mode != "constant" or value.constant is None:
        raise ValueError(f"the mode {mode} is not supported")
    number = float(np.asarray(value.constant))
    return b.node("PadFusion", [x, flat], kind, padding_mode="CONSTANT", constant_value=number)
