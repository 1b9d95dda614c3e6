"""Normalisation in .ms files: of channels, which come last, of layers and of lengths."""

from __future__ import annotations

from ..builder import Builder, OnnxTensor, Value, filled_like, lowers
from .activation import activated
from .layout import channels_first, channels_last
from .results import as_mindir, kept


@lowers("Lite.BatchNorm")
def batch_norm(
    b: Builder, x: Value, mean: Value, variance: Value, *rest: Value, epsilon: float
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) of each channel, as Caffe has it. With five inputs they
    are those of FusedBatchNorm.
    """
    if len(rest) == 2:
        return fused_batch_norm(b, x, mean, variance, *rest, epsilon=epsilon)
    center, spread = b.tensor(mean), b.tensor(variance)
    ones, zeros = (filled_like(b, value, center, center.dtype) for value in (1, 0))
    return kept(b, (_normalised(b, x, ones, zeros, center, spread, epsilon), mean, variance))


@lowers("Lite.FusedBatchNorm")
def fused_batch_norm(
    b: Builder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float,
) -> Value:
    """ONNX's BatchNormalization; the statistics are further results."""
    y = _normalised(b, x, scale, bias, mean, variance, epsilon)
    return kept(b, (y, scale, bias, mean, variance))


def _normalised(b: Builder, x: Value, *parameters: Value) -> OnnxTensor:
    *statistics, epsilon = parameters
    tensor = b.tensor(x)
    image = tensor.shape is not None and len(tensor.shape) == 4
    y = channels_first(b, tensor) if image else tensor
    if tensor.shape is not None and len(tensor.shape) not in (2, 4):
        raise ValueError(f"{len(tensor.shape)} dimensions are normalised, expected 2 or 4")
    values = [b.tensor(one) for one in statistics]
    y = b.op("BatchNormalization", y, *values, epsilon=epsilon)
    return channels_last(b, y) if image else y


@lowers("Lite.InstanceNorm")
def instance_norm(b: Builder, x: Value, gamma: Value, beta: Value, *, epsilon: float) -> Value:
    """ONNX's InstanceNormalization."""
    parameters = [b.tensor(one) for one in (gamma, beta)]
    y = b.op("InstanceNormalization", channels_first(b, x), *parameters, epsilon=epsilon)
    return channels_last(b, y)


@lowers("Lite.GroupNormFusion")
def group_norm(
    b: Builder, x: Value, gamma: Value, beta: Value, *, num_groups: int, epsilon: float
) -> Value:
    """MindIR's GroupNorm: channels are the second axis."""
    return as_mindir(b, "GroupNorm", x, num_groups, gamma, beta, epsilon)


@lowers("Lite.LayerNormFusion")
def layer_norm(
    b: Builder,
    x: Value,
    gamma: Value,
    beta: Value,
    *,
    begin_norm_axis: int,
    begin_params_axis: int,
    epsilon: float,
) -> Value:
    """MindIR's LayerNorm."""
    return as_mindir(b, "LayerNorm", x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon)


@lowers("Lite.LRN")
def local_response(
    b: Builder, x: Value, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Value:
    """MindIR's LRN: alpha is for each of the neighbours, ONNX's for all."""
    size = 2 * depth_radius + 1
    y = b.op("LRN", channels_first(b, x), size=size, alpha=alpha * size, beta=beta, bias=bias)
    return channels_last(b, y)


@lowers("Lite.L2NormalizeFusion")
def l2_normalize(
    b: Builder, x: Value, *, axis: Value, epsilon: float, activation_type: str
) -> Value:
    """MindIR's L2Normalize."""
    y = as_mindir(b, "L2Normalize", x, axis=axis or (-1,), epsilon=epsilon)
    return activated(b, y, activation_type)


@lowers("Lite.LpNormalization")
def lp_normalization(b: Builder, x: Value, *, axis: int, p: int) -> Value:
    """ONNX's LpNormalization."""
    return b.op("LpNormalization", b.tensor(x), axis=axis, p=p)


@lowers("Lite.ScaleFusion")
def scale(
    b: Builder, x: Value, factor: Value, offset: Value = None, *, axis: int, activation_type: str
) -> Value:
    """x * factor + offset, whose axes are those of x from `axis` on, as Caffe has it."""
    tensor = b.tensor(x)
    behind = len(b.tensor(factor).shape or ())
    missing = tensor.rank - axis % tensor.rank - behind
    axes = tuple(range(-missing, 0)) if missing else ()

    def fitted(value: Value) -> OnnxTensor:
        return b.op("Unsqueeze", b.tensor(value), axes) if axes else b.tensor(value)

    y = b.op("Mul", tensor, fitted(factor))
    y = y if offset is None else b.op("Add", y, fitted(offset))
    return activated(b, y, activation_type)


@lowers("Lite.BiasAdd")
def bias_add(b: Builder, x: Value, bias: Value) -> Value:
    """x plus a number for each channel, which come last."""
    return b.op("Add", b.tensor(x), b.tensor(bias))


@lowers("Lite.FakeQuantWithMinMaxVars", "Lite.FakeQuantWithMinMaxVarsPerChannel")
def fake_quantised(
    b: Builder, x: Value, low: Value, high: Value, *, num_bits: int, narrow_range: bool
) -> Value:
    """x rounded to the steps that quantisation leaves between two bounds, as TensorFlow has it."""
    tensor = b.tensor(x)
    first, last = int(narrow_range), 2**num_bits - 1
    lowest, highest = b.tensor(low), b.tensor(high)
    step = b.op("Div", b.op("Sub", highest, lowest), float(last - first))
    zero = b.op("Sub", float(first), b.op("Round", b.op("Div", lowest, step)))
    zero = b.op("Clip", zero, float(first), float(last))
    number = b.op("Add", b.op("Round", b.op("Div", tensor, step)), zero)
    return b.op("Mul", b.op("Sub", b.op("Clip", number, float(first), float(last)), zero), step)
