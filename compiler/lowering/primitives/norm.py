"""Normalisation layers: batch, layer, group, instance, RMS and local response."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    FLOAT32,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    axis_of,
    dims,
    filled_like,
    integer,
    integers,
    layout,
    lowers,
    moderate,
    number,
)


@lowers("BatchNorm")
def batch_norm(
    b: Builder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    is_training: Value = False,
    epsilon: Value = 1e-5,
    momentum: Value = 0.1,
    data_format: Value = "NCHW",
    *,
    format: Value = "NCHW",
) -> Value:
    """(result, mean, variance, mean, variance), of stored statistics or of the batch's own."""
    x = b.tensor(x)
    last = layout(data_format) == "NHWC" and x.rank > 2
    if is_training:
        mean, variance = _batch_moments(b, x, x.rank - 1 if last else 1)
    statistics = [b.tensor(value) for value in (scale, bias, mean, variance)]
    if x.dtype == np.float64:
        statistics = [b.cast(value, x.dtype) for value in statistics]
    y = b.op("Transpose", x, perm=[0, 3, 1, 2]) if last else x
    y = b.op("BatchNormalization", y, *statistics, epsilon=number(epsilon, "epsilon"))
    y = b.op("Transpose", y, perm=[0, 2, 3, 1]) if last else y
    return y, statistics[2], statistics[3], statistics[2], statistics[3]


def _batch_moments(b: Builder, x: OnnxTensor, channels: int) -> tuple[OnnxTensor, OnnxTensor]:
    """Mean and variance of each channel over the batch."""
    axes = tuple(axis for axis in range(x.rank) if axis != channels)
    gap = b.op("Sub", x, b.op("ReduceMean", x, axes, keepdims=1))
    mean = b.op("ReduceMean", x, axes, keepdims=0)
    return mean, b.op("ReduceMean", b.op("Mul", gap, gap), axes, keepdims=0)


@lowers("BatchNormExt")
def batch_norm_ext(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    training: Value = False,
    momentum: Value = 0.1,
    epsilon: Value = 1e-5,
) -> Value:
    """(result, mean, variance), of stored statistics or of the batch's own."""
    x, mean = b.tensor(input), b.tensor(running_mean)
    if weight is None:
        weight = filled_like(b, 1, mean, x.dtype)
    if bias is None:
        bias = filled_like(b, 0, mean, x.dtype)
    return batch_norm(b, x, weight, bias, mean, running_var, training, epsilon)[:3]


@lowers("LayerNorm", "LayerNormV3")
def layer_norm(
    b: Builder,
    input_x: Value,
    gamma: Value,
    beta: Value,
    begin_norm_axis: Value = 1,
    begin_params_axis: Value = 1,
    epsilon: Value = 1e-7,
) -> Value:
    """(result, mean, variance) over the axes from begin_norm_axis on."""
    x = b.tensor(input_x)
    axis, eps = integer(begin_norm_axis, "begin_norm_axis"), float(number(epsilon, "epsilon"))
    params = integer(begin_params_axis, "begin_params_axis")
    known = x.shape is not None and axis_of(axis, x.rank) == axis_of(params, x.rank)
    mean, variance = _moments(b, x, axis)
    if axis == params or known:
        y = b.op("LayerNormalization", x, b.tensor(gamma), b.tensor(beta), axis=axis, epsilon=eps)
        return y, mean, variance
    gap = b.op("Sub", b.cast(x, mean.dtype), mean)
    whitened = b.op("Div", gap, b.op("Sqrt", b.op("Add", variance, eps)))
    scaled = b.op("Mul", b.cast(whitened, x.dtype), b.tensor(gamma))
    return b.op("Add", scaled, b.tensor(beta)), mean, variance


def _moments(b: Builder, x: OnnxTensor, axis: int) -> tuple[OnnxTensor, OnnxTensor]:
    """Mean and variance over the axes from `axis` on, kept with size 1; of half in float32."""
    x = b.cast(x, FLOAT32) if x.dtype.itemsize == 2 else x
    axes = tuple(range(axis, 0)) if axis < 0 else tuple(range(axis, x.rank))
    mean = b.op("ReduceMean", x, axes, keepdims=1)
    gap = b.op("Sub", x, mean)
    return mean, b.op("ReduceMean", b.op("Mul", gap, gap), axes, keepdims=1)


@lowers("LayerNormExt")
def layer_norm_ext(
    b: Builder,
    input: Value,
    normalized_shape: Value,
    weight: Value = None,
    bias: Value = None,
    eps: Value = 1e-5,
) -> Value:
    """(result, mean, 1 / deviation) over the last axes, as many as normalized_shape has."""
    x, sizes = b.tensor(input), integers(normalized_shape, "normalized_shape")
    epsilon = float(number(eps, "eps"))
    scale = b.tensor(weight) if weight is not None else b.op("Expand", np.ones((), x.dtype), sizes)
    y = b.op(
        "LayerNormalization",
        x,
        scale,
        *([] if bias is None else [b.tensor(bias)]),
        axis=-len(sizes),
        epsilon=epsilon,
    )
    mean, variance = _moments(b, x, -len(sizes))
    return y, mean, b.op("Reciprocal", b.op("Sqrt", b.op("Add", variance, epsilon)))


@lowers("GroupNorm")
def group_norm(
    b: Builder,
    input: Value,
    num_groups: Value,
    weight: Value = None,
    bias: Value = None,
    eps: Value = 1e-5,
) -> Value:
    """(result, mean, 1 / deviation) over groups of channels, by InstanceNormalization."""
    x, groups, epsilon = (
        b.tensor(input),
        integer(num_groups, "num_groups"),
        float(number(eps, "eps")),
    )
    moderate(groups, "num_groups")
    grouped = b.op("Reshape", x, (0, groups, -1), type=TensorType(x.dtype, (-1, groups, -1)))
    y = b.op(
        "InstanceNormalization",
        grouped,
        np.ones(groups, x.dtype),
        np.zeros(groups, x.dtype),
        epsilon=epsilon,
    )
    y = b.op("Reshape", y, b.tensor(dims(b, x)) if x.shape is not None else b.op("Shape", x))
    y = _per_channel(b, x, y, "Mul", weight)
    mean, variance = _moments(b, grouped, -1)
    deviation = b.op("Reciprocal", b.op("Sqrt", b.op("Add", variance, epsilon)))
    return (
        _per_channel(b, x, y, "Add", bias),
        b.op("Squeeze", mean, (-1,)),
        b.op("Squeeze", deviation, (-1,)),
    )


def _per_channel(
    b: Builder, x: OnnxTensor, y: OnnxTensor, op_type: str, parameter: Value
) -> OnnxTensor:
    if parameter is None:
        return y
    factor = as_dtype(b, parameter, x.dtype)
    if x.rank > 2:
        factor = b.op("Reshape", factor, (-1,) + (1,) * (x.rank - 2))
    return b.op(op_type, y, factor)


@lowers("RmsNorm")
def rms_norm(b: Builder, x: Value, gamma: Value, epsilon: Value = 1e-6) -> Value:
    """(result, 1 / root mean square) as onnxruntime fuses it; half precision in float32."""
    x, scale = b.tensor(x), b.tensor(gamma)
    axes = tuple(range(-scale.rank, 0))
    wide = b.cast(x, FLOAT32) if x.dtype.itemsize == 2 else x
    power = b.op("ReduceMean", b.op("Pow", wide, 2.0), axes, keepdims=1)
    root = b.op("Sqrt", b.op("Add", power, float(number(epsilon, "epsilon"))))
    return b.op("Mul", b.cast(b.op("Div", wide, root), scale.dtype), scale), b.op(
        "Reciprocal", root
    )


@lowers("AddRmsNorm")
def add_rms_norm(b: Builder, x1: Value, x2: Value, gamma: Value, epsilon: Value = 1e-6) -> Value:
    """(rms_norm(x1 + x2), 1 / root mean square, x1 + x2)."""
    total = b.op("Add", b.tensor(x1), b.tensor(x2))
    return (*rms_norm(b, total, gamma, epsilon), total)


@lowers("AddLayerNormV2")
def add_layer_norm(
    b: Builder,
    x1: Value,
    x2: Value,
    gamma: Value,
    beta: Value,
    epsilon: Value = 1e-5,
    additional_out: Value = False,
) -> Value:
    """(layer_norm(x1 + x2), mean, 1 / deviation, x1 + x2), over the last axis."""
    total = b.op("Add", b.tensor(x1), b.tensor(x2))
    y, mean, variance = layer_norm(b, total, gamma, beta, -1, -1, epsilon)
    return (
        y,
        mean,
        b.op("Reciprocal", b.op("Sqrt", b.op("Add", variance, float(number(epsilon, "epsilon"))))),
        total,
    )


@lowers("InstanceNorm")
def instance_norm(
    b: Builder,
    input_x: Value,
    gamma: Value,
    beta: Value,
    mean: Value = None,
    variance: Value = None,
    *,
    epsilon: float = 1e-5,
) -> Value:
    """(each channel of each sample normalised by itself, and two that only training reads)."""
    parameters = [b.tensor(value) for value in (gamma, beta)]
    x = b.tensor(input_x)
    parameters = [b.cast(value, x.dtype) for value in parameters]
    return b.op("InstanceNormalization", x, *parameters, epsilon=epsilon), None, None


@lowers("L2Normalize")
def l2_normalize(b: Builder, x: Value, *, axis: Value = 0, epsilon: float = 1e-4) -> Value:
    """x / sqrt(max(sum of squares, epsilon))."""
    x = b.tensor(x)
    power = b.op("ReduceSumSquare", x, integers(axis, "the axis"), keepdims=1)
    return b.op("Div", x, b.op("Sqrt", b.op("Max", power, epsilon)))


@lowers("LRN")
def lrn(
    b: Builder,
    x: Value,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Value:
    """x / (bias + alpha * sum over neighbouring channels of x squared) ** beta."""
    if norm_region != "ACROSS_CHANNELS":
        raise ValueError(f"the region {norm_region} is not supported")
    size = 2 * depth_radius + 1
    return b.op("LRN", b.tensor(x), size=size, alpha=alpha * size, beta=beta, bias=bias)
