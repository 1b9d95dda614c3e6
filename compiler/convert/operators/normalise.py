"""Normalisation: brings batches, layers and groups of channels to one mean and deviation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types.value_types import TensorType, TupleType
from ..mindir.values import MindirValue, tuple_type
from .node_conversion import NodeConversion
from .registry import converts


@converts("BatchNormalization")
def batch(
    c: NodeConversion,
    x: MindirValue,
    scale: MindirValue,
    bias: MindirValue,
    mean: MindirValue,
    variance: MindirValue,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> MindirValue | Sequence[MindirValue]:
    """By the statistics of the training, or in training mode by those of the batch."""
    if training_mode:
        axes = (0, *range(2, x.rank))
        y = _normal(c, x, axes, scale, bias, epsilon)
        if len(c.types) == 1:
            return y
        center, spread = _statistics(c, x, axes)
        moved = _moved(c, mean, center, momentum), _moved(c, variance, spread, momentum)
        return [y, *moved]
    kinds = tuple_type([MindirValue("", c.type), scale, bias, mean, variance])
    found = c.apply(
        "BatchNorm",
        x,
        scale,
        bias,
        mean,
        variance,
        False,
        float(epsilon),
        float(momentum),
        0,
        type=kinds,
    )
    return c.builder.item(found, 0)


@converts("LayerNormalization")
def layer(
    c: NodeConversion,
    x: MindirValue,
    scale: MindirValue,
    bias: MindirValue | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> MindirValue:
    """Over the axes from `axis` on."""
    if len(c.types) > 1:
        raise ValueError("outputs of the mean and the deviation are not supported")
    begin = axis % x.rank
    if bias is None:
        bias = c.builder.constant(np.zeros(scale.shape, scale.dtype))
    kept = TensorType(x.dtype, x.shape[:begin] + (1,) * (x.rank - begin))
    kind = TupleType((c.type, kept, kept))
    found = c.apply("LayerNorm", x, scale, bias, begin, begin, float(epsilon), type=kind)
    return c.builder.item(found, 0)


@converts("RMSNormalization")
@converts("SimplifiedLayerNormalization")
def root_mean_square(
    c: NodeConversion,
    x: MindirValue,
    scale: MindirValue,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> MindirValue:
    """x / sqrt(mean x^2 + epsilon), times the scale."""
    begin = axis % x.rank
    kept = TensorType(x.dtype, x.shape[:begin] + (1,) * (x.rank - begin))
    square = c.apply("Mul", x, x)
    mean = c.apply("ReduceMean", square, tuple(range(begin, x.rank)), True, type=kept)
    least = np.asarray(epsilon, x.dtype)
    root = c.apply("Rsqrt", c.apply("Add", mean, least, type=kept), type=kept)
    return c.apply("Mul", c.apply("Mul", x, root), scale)


@converts("InstanceNormalization")
def instance(
    c: NodeConversion,
    x: MindirValue,
    scale: MindirValue,
    bias: MindirValue,
    *,
    epsilon: float = 1e-5,
) -> MindirValue:
    """Over the places of each channel of each image."""
    return _normal(c, x, tuple(range(2, x.rank)), scale, bias, epsilon)


@converts("GroupNormalization")
def group(
    c: NodeConversion,
    x: MindirValue,
    scale: MindirValue,
    bias: MindirValue,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> MindirValue:
    """Over groups of channels; the scale has one number for each channel since opset 21."""
    if scale.shape[0] != x.shape[1]:
        raise ValueError("a scale for each group is not supported: export opset 21 or later")
    kept = TensorType(x.dtype, (x.shape[0], num_groups))
    kind = TupleType((c.type, kept, kept))
    found = c.apply("GroupNorm", x, num_groups, scale, bias, float(epsilon), type=kind)
    return c.builder.item(found, 0)


def _statistics(
    c: NodeConversion, x: MindirValue, axes: tuple[int, ...]
) -> tuple[MindirValue, MindirValue]:
    """The mean and the variance of each channel."""
    one = TensorType(x.dtype, (x.shape[1],))
    wide = TensorType(x.dtype, (1, x.shape[1], *(1,) * (x.rank - 2)))
    rest = c.apply("Sub", x, c.apply("ReduceMean", x, axes, True, type=wide))
    variance = c.apply("ReduceMean", c.apply("Mul", rest, rest), axes, False, type=one)
    return c.apply("ReduceMean", x, axes, False, type=one), variance


def _moved(c: NodeConversion, old: MindirValue, new: MindirValue, momentum: float) -> MindirValue:
    """A running statistic after one more batch."""
    kept = c.apply("Mul", old, np.asarray(momentum, old.dtype), type=new.type)
    added = c.apply("Mul", new, np.asarray(1 - momentum, old.dtype), type=new.type)
    return c.apply("Add", kept, added, type=new.type)


def _normal(
    c: NodeConversion,
    x: MindirValue,
    axes: tuple[int, ...],
    scale: MindirValue,
    bias: MindirValue,
    epsilon: float,
) -> MindirValue:
    """(x - mean) / sqrt(variance + epsilon), times the scale of a channel, plus its bias."""
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    kept = TensorType(x.dtype, sizes)
    mean = c.apply("ReduceMean", x, axes, True, type=kept)
    rest = c.apply("Sub", x, mean)
    variance = c.apply("ReduceMean", c.apply("Mul", rest, rest), axes, True, type=kept)
    least = np.asarray(epsilon, x.dtype)
    root = c.apply("Rsqrt", c.apply("Add", variance, least, type=kept), type=kept)
    channels = (1, -1, *(1,) * (x.rank - 2))
    scale, bias = (_of_channels(c, one, channels) for one in (scale, bias))
    return c.apply("Add", c.apply("Mul", c.apply("Mul", rest, root), scale), bias)


def _of_channels(c: NodeConversion, x: MindirValue, shape: tuple[int, ...]) -> MindirValue:
    return c.reshaped(x, tuple(x.shape[0] if size < 0 else size for size in shape))
