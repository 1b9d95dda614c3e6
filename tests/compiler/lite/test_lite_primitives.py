"""Each primitive of .ms files against numpy, in files that are written for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lite_models import ran

F32, I32 = np.float32, np.int32
R = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return R.normal(size=shape).astype(F32)


X, Y, POSITIVE = floats(2, 3, 4), floats(2, 3, 4), np.abs(floats(2, 3, 4)) + 0.1
IMAGE = floats(2, 5, 6, 3)


@dataclass(frozen=True)
class Case:
    """One primitive with its inputs, constants and attributes, and what numpy gives."""

    primitive: str
    inputs: Sequence[np.ndarray]
    expected: Any
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[tuple[Any, Sequence[int]]] = ()


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, I32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def windows(x: np.ndarray, kernel, strides) -> np.ndarray:
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(1, 2))
    return np.moveaxis(view[:, :: strides[0], :: strides[1]], 3, 5)


def conv(x, w, stride=(1, 1)):
    return np.einsum("nhwabc,oabc->nhwo", windows(x, w.shape[1:3], stride), w)


def padded(x, top, bottom, left, right, value=0.0):
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def transposed_conv(x, w, stride):
    n, h, wide, _ = x.shape
    _, kh, kw, out = w.shape
    y = np.zeros((n, (h - 1) * stride + kh, (wide - 1) * stride + kw, out))
    for i in range(h):
        for j in range(wide):
            patch = np.einsum("nc,cabo->nabo", x[:, i, j], w)
            y[:, i * stride : i * stride + kh, j * stride : j * stride + kw] += patch
    return y


def normal(x, axes, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "Abs": (np.abs, X),
    "Ceil": (np.ceil, X),
    "Cos": (np.cos, X),
    "Floor": (np.floor, X),
    "Log": (np.log, POSITIVE),
    "Log1p": (np.log1p, POSITIVE),
    "Neg": (np.negative, X),
    "Reciprocal": (lambda x: 1 / x, POSITIVE),
    "Round": (np.round, X),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "Sin": (np.sin, X),
    "Sqrt": (np.sqrt, POSITIVE),
    "Square": (np.square, X),
    "OnesLike": (np.ones_like, X),
    "ZerosLike": (np.zeros_like, X),
}
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "AddFusion": np.add,
    "SubFusion": np.subtract,
    "MulFusion": np.multiply,
    "DivFusion": np.divide,
    "RealDiv": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}
COMPARE = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
}
ACTIVATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], dict[str, Any]]] = {
    "NO_ACTIVATION": (lambda x: x, {}),
    "RELU": (lambda x: np.maximum(x, 0), {}),
    "SIGMOID": (sigmoid, {}),
    "RELU6": (lambda x: x.clip(0, 6), {}),
    "ELU": (lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), {"alpha": 0.5}),
    "LEAKY_RELU": (lambda x: np.where(x > 0, x, 0.2 * x), {"alpha": 0.2}),
    "ABS": (np.abs, {}),
    "RELU1": (lambda x: x.clip(0, 1), {}),
    "SOFTSIGN": (lambda x: x / (1 + np.abs(x)), {}),
    "SOFTPLUS": (lambda x: np.log1p(np.exp(x)), {}),
    "TANH": (np.tanh, {}),
    "SELU": (
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
        {},
    ),
    "HSWISH": (lambda x: x * (x + 3).clip(0, 6) / 6, {}),
    "HSIGMOID": (lambda x: (x + 3).clip(0, 6) / 6, {}),
    "THRESHOLDRELU": (lambda x: np.where(x > 0.3, x, 0), {"alpha": 0.3}),
    "LINEAR": (lambda x: x, {}),
    "HARD_TANH": (lambda x: x.clip(-0.5, 0.7), {"min_val": -0.5, "max_val": 0.7}),
    "SIGN": (np.sign, {}),
    "SWISH": (lambda x: x * sigmoid(x), {}),
    "GELU": (
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        {"approximate": True},
    ),
    "FAST_GELU": (lambda x: x * sigmoid(1.702 * x), {}),
}
W = floats(4, 3, 2, 3)
WT = floats(3, 3, 3, 4)
BIAS, CHANNEL = floats(4), floats(3)
WINDOW = {"kernel_size": [2, 2], "strides": [2, 2], "format": "NHWC", "pad_mode": "VALID"}
CONV = {"format": "NHWC", "kernel_size": [3, 2], "stride": [1, 1], "dilation": [1, 1]}
LAYER = normal(X.astype(float), (1, 2), 1e-5)
SEQUENCE, STATE = floats(5, 2, 3), floats(1, 2, 4)
WX, WR, WB = floats(1, 16, 3), floats(1, 16, 4), floats(1, 32)
GX, GR, GB = floats(1, 12, 3), floats(1, 12, 4), floats(1, 24)
MATRIX = floats(4, 5)


def lstm() -> list[np.ndarray]:
    h, c, found = STATE[0].astype(float), STATE[0].astype(float), []
    for x in SEQUENCE:
        gates = x @ WX[0].T + h @ WR[0].T + WB[0, :16] + WB[0, 16:]
        i, o, f, g = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return [np.stack(found)[:, None], h[None], c[None]]


def gru() -> list[np.ndarray]:
    h, found = STATE[0].astype(float), []
    for x in SEQUENCE:
        zx, rx, nx = np.split(x @ GX[0].T + GB[0, :12], 3, 1)
        zw, rw, nw = np.split(GR[0], 3)
        zb, rb, nb = np.split(GB[0, 12:], 3)
        z, r = sigmoid(zx + h @ zw.T + zb), sigmoid(rx + h @ rw.T + rb)
        h = (1 - z) * np.tanh(nx + (r * h) @ nw.T + nb) + z * h
        found.append(h)
    return [np.stack(found)[:, None], h[None]]


def blocks_of_depth(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    y = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, h // 2, w // 2, 4 * c)


EVEN = floats(2, 4, 6, 3)
DEEP = blocks_of_depth(EVEN)


def to_batch(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, i::2, j::2] for i in range(2) for j in range(2)])


def scattered(shape, indices, updates):
    y = np.zeros(shape, updates.dtype)
    np.add.at(y, tuple(indices.T), updates)
    return y


INDICES = ints(2, 0, 1, 1)
CASES = [
    *(Case(name, [x], function(x)) for name, (function, x) in UNARY.items()),
    *(Case(name, [X, POSITIVE], function(X, POSITIVE)) for name, function in BINARY.items()),
    *(
        Case(name, [X, np.round(X)], function(X, np.round(X)), outputs=[(bool, ())])
        for name, function in COMPARE.items()
    ),
    *(
        Case("Activation", [X], function(X), attributes={"activation_type": name, **attributes})
        for name, (function, attributes) in ACTIVATIONS.items()
    ),
    Case("AddFusion", [X, Y], np.maximum(X + Y, 0), attributes={"activation_type": "RELU"}),
    Case("Eltwise", [X, Y], X * Y, attributes={"mode": "PROD"}),
    Case("Eltwise", [X, Y], np.maximum(X, Y), attributes={"mode": "MAXIMUM"}),
    Case("AddN", [X, Y, X], X + Y + X),
    Case(
        "PowFusion",
        [POSITIVE],
        (2 * POSITIVE + 1) ** 1.5,
        [np.asarray(1.5, F32)],
        {"scale": 2.0, "shift": 1.0},
    ),
    Case("ExpFusion", [X], np.exp(X)),
    Case(
        "ExpFusion", [X], 2.0 ** (0.5 * X + 1), attributes={"base": 2.0, "scale": 0.5, "shift": 1.0}
    ),
    Case("Elu", [X], np.where(X > 0, X, np.exp(X) - 1), attributes={"alpha": 1.0}),
    Case("LeakyRelu", [X], np.where(X > 0, X, 0.1 * X), attributes={"negative_slope": 0.1}),
    Case("PReLUFusion", [IMAGE], np.where(IMAGE > 0, IMAGE, IMAGE * CHANNEL), [CHANNEL]),
    Case("Clip", [X], X.clip(-0.5, 0.5), attributes={"min": -0.5, "max": 0.5}),
    Case("Clip", [X], X.clip(-0.2, 0.4), [np.asarray(-0.2, F32), np.asarray(0.4, F32)]),
    Case("Cast", [X], X.astype(I32), [ints(34)], outputs=[(I32, ())]),
    Case("LogicalAnd", [X > 0, Y > 0], (X > 0) & (Y > 0), outputs=[(bool, ())]),
    Case("LogicalOr", [X > 0, Y > 0], (X > 0) | (Y > 0), outputs=[(bool, ())]),
    Case("LogicalNot", [X > 0], X <= 0, outputs=[(bool, ())]),
    Case("IsFinite", [X], np.isfinite(X), outputs=[(bool, ())]),
    Case("Select", [X > 0, X, Y], np.where(X > 0, X, Y)),
    Case("Where", [X > 0, X, Y], np.where(X > 0, X, Y)),
    Case("Where", [X > 0], np.argwhere(X > 0), outputs=[(I32, (-1, 3))]),
    Case("NonZero", [X > 0], np.stack(np.nonzero(X > 0)), outputs=[(I32, (3, -1))]),
    Case("Softmax", [X], np.exp(X) / np.exp(X).sum(-1, keepdims=True), attributes={"axis": [-1]}),
    Case("LogSoftmax", [X], X - np.log(np.exp(X).sum(1, keepdims=True)), attributes={"axis": 1}),
    Case("Dropout", [X], [X, np.ones_like(X)], outputs=[(F32, ()), (F32, ())]),
    Case("Dropout", [X], X),
    Case("GLU", [X], X[..., :2] * sigmoid(X[..., 2:]), attributes={"axis": -1}),
    Case("CumSum", [X], X.cumsum(1), [ints(1)]),
    Case("InvertPermutation", [INDICES[:3]], np.argsort(INDICES[:3]), outputs=[(I32, (3,))]),
    # matrices
    Case("MatMulFusion", [X], X @ MATRIX, [MATRIX]),
    Case(
        "MatMulFusion",
        [X],
        np.maximum(X @ MATRIX + BIAS[0], 0),
        [MATRIX.T, np.full(5, BIAS[0])],
        {"transpose_b": True, "activation_type": "RELU"},
    ),
    Case("MatMulFusion", [X, Y], X.swapaxes(1, 2) @ Y, attributes={"transpose_a": True}),
    Case(
        "FullConnection",
        [X],
        X.reshape(2, 12) @ np.ones((12, 5)),
        [np.ones((5, 12), F32)],
        {"use_axis": True, "axis": 1},
    ),
    Case(
        "FullConnection",
        [X],
        X @ MATRIX + 1,
        [MATRIX.T, np.ones(5, F32)],
        {"use_axis": True, "axis": 2, "has_bias": True},
    ),
    Case(
        "Affine",
        [SEQUENCE],
        np.concatenate([SEQUENCE[:, :1], SEQUENCE[:, 1:]], -1) @ np.ones((6, 2)),
        [np.ones((6, 2), F32)],
        {"context": [0, 1]},
    ),
    Case(
        "Splice",
        [X],
        X[:, [0, 1, 1, 2]].reshape(2, 2, 8),
        attributes={"context": [0, 1], "forward_indexes": [0, 1, 1, 2], "output_dim": 8},
    ),
    # images
    Case(
        "Conv2DFusion",
        [IMAGE],
        np.maximum(conv(IMAGE, W) + BIAS, 0),
        [W, BIAS],
        {**CONV, "pad_mode": "VALID", "group": 1, "activation_type": "RELU"},
    ),
    Case(
        "Conv2DFusion",
        [IMAGE],
        conv(padded(IMAGE, 1, 0, 2, 1), W, (2, 2)),
        [W],
        {**CONV, "stride": [2, 2], "pad_mode": "PAD", "pad_list": [1, 0, 2, 1], "group": 1},
    ),
    Case(
        "Conv2DFusion",
        [IMAGE],
        conv(padded(IMAGE, 1, 1, 0, 1), W),
        [W],
        {**CONV, "pad_mode": "SAME", "pad_list": [0, 0, 0, 0], "group": 1},
    ),
    Case(
        "Conv2DFusion",
        [IMAGE],
        np.concatenate([conv(IMAGE[..., i : i + 1], W[i : i + 1, :, :, :1]) for i in range(3)], -1),
        [W[:3, :, :, :1]],
        {**CONV, "pad_mode": "VALID", "group": 3, "in_channel": 3, "out_channel": 3},
    ),
    Case(
        "Conv2dTransposeFusion",
        [IMAGE],
        transposed_conv(IMAGE, WT, 2),
        [WT],
        {"format": "NHWC", "stride": [2, 2], "dilation": [1, 1], "pad_mode": "VALID", "group": 1},
    ),
    Case(
        "Conv2dTransposeFusion",
        [IMAGE],
        transposed_conv(IMAGE, WT, 2)[:, :10, :12],
        [WT],
        {"format": "NHWC", "stride": [2, 2], "dilation": [1, 1], "pad_mode": "SAME", "group": 1},
    ),
    Case(
        "AdderFusion",
        [IMAGE],
        -np.abs(windows(IMAGE, (3, 2), (1, 1))[:, :, :, None] - W).sum((4, 5, 6)),
        [W],
        {**CONV, "pad_mode": "VALID", "group": 1},
    ),
    Case("MaxPoolFusion", [EVEN], windows(EVEN, (2, 2), (2, 2)).max((3, 4)), attributes=WINDOW),
    Case("AvgPoolFusion", [EVEN], windows(EVEN, (2, 2), (2, 2)).mean((3, 4)), attributes=WINDOW),
    Case(
        "AvgPoolFusion",
        [IMAGE],
        IMAGE.mean((1, 2), keepdims=True),
        attributes={"global": True, "format": "NHWC"},
    ),
    Case(
        "MaxPoolFusion",
        [IMAGE],
        windows(padded(IMAGE, 0, 1, 0, 0, -np.inf), (2, 2), (2, 2)).max((3, 4)),
        attributes={**WINDOW, "pad_mode": "PAD", "pad": [0, 0, 0, 0], "round_mode": "CEIL"},
    ),
    Case("BiasAdd", [IMAGE], IMAGE + CHANNEL, [CHANNEL]),
    Case(
        "BatchNorm",
        [IMAGE],
        (IMAGE - CHANNEL) / np.sqrt(np.abs(CHANNEL) + 1e-3),
        [CHANNEL, np.abs(CHANNEL)],
        {"epsilon": 1e-3},
    ),
    Case(
        "FusedBatchNorm",
        [IMAGE],
        (IMAGE - CHANNEL) / np.sqrt(np.abs(CHANNEL) + 1e-3) * (CHANNEL + 1) + 2,
        [CHANNEL + 1, np.full(3, 2, F32), CHANNEL, np.abs(CHANNEL)],
        {"epsilon": 1e-3},
    ),
    Case(
        "InstanceNorm",
        [IMAGE],
        normal(IMAGE, (1, 2), 1e-5) * CHANNEL + 1,
        [CHANNEL, np.ones(3, F32)],
        {"epsilon": 1e-5},
    ),
    Case(
        "LayerNormFusion",
        [X],
        LAYER,
        [np.ones((3, 4), F32), np.zeros((3, 4), F32)],
        {"begin_norm_axis": 1, "begin_params_axis": 1, "elementwise_affine": True},
    ),
    Case(
        "GroupNormFusion",
        [EVEN],
        normal(EVEN.reshape(2, 2, 2, 6, 3), (2, 3, 4), 1e-5).reshape(2, 4, 6, 3),
        [np.ones(4, F32), np.zeros(4, F32)],
        {"num_groups": 2},
    ),
    Case(
        "LRN",
        [IMAGE],
        IMAGE
        / (
            1
            + 0.1
            * np.stack([(IMAGE[..., max(0, i - 1) : i + 2] ** 2).sum(-1) for i in range(3)], -1)
        )
        ** 0.5,
        attributes={"depth_radius": 1, "bias": 1.0, "alpha": 0.1, "beta": 0.5},
    ),
    Case(
        "L2NormalizeFusion",
        [X],
        X / np.sqrt((X**2).sum(-1, keepdims=True)),
        attributes={"axis": [-1], "epsilon": 1e-10},
    ),
    Case(
        "LpNormalization",
        [X],
        X / np.abs(X).sum(-1, keepdims=True),
        attributes={"axis": -1, "p": 1},
    ),
    Case("ScaleFusion", [X], X * CHANNEL[:, None] + 1, [CHANNEL, np.ones(3, F32)], {"axis": 1}),
    Case("DepthToSpace", [DEEP], EVEN, attributes={"block_size": 2, "format": "NHWC"}),
    Case("SpaceToDepth", [EVEN], DEEP, attributes={"block_size": 2, "format": "NHWC"}),
    Case(
        "SpaceToBatchND",
        [EVEN],
        to_batch(EVEN),
        attributes={
            "block_shape": [2, 2],
            "paddings": {"data": [{"data": [0, 0]}, {"data": [0, 0]}]},
        },
    ),
    Case(
        "BatchToSpaceND",
        [to_batch(EVEN)],
        EVEN[:, 1:],
        attributes={"block_shape": [2, 2], "crops": {"data": [{"data": [1, 0]}, {"data": [0, 0]}]}},
    ),
    Case(
        "SpaceToBatch",
        [EVEN],
        to_batch(EVEN),
        attributes={
            "block_size": [2, 2],
            "paddings": {"data": [{"data": [0, 0]}, {"data": [0, 0]}]},
        },
    ),
    Case("BatchToSpace", [to_batch(EVEN)], EVEN, attributes={"block_size": [2, 2]}),
    Case(
        "Resize",
        [IMAGE],
        IMAGE.repeat(2, 1).repeat(2, 2),
        attributes={"method": "NEAREST", "new_height": 10, "new_width": 12, "format": "NHWC"},
    ),
    Case(
        "Resize",
        [IMAGE],
        IMAGE.repeat(2, 1).repeat(3, 2),
        [np.asarray([2, 3], F32)],
        {"method": "NEAREST"},
    ),
    Case(
        "Resize",
        [EVEN[:, :2, :2]],
        np.stack([EVEN[:, 0, :2], EVEN[:, :2, :2].mean(1), EVEN[:, 1, :2]], 1),
        [ints(3, 2)],
        {"method": "LINEAR", "coordinate_transform_mode": "ALIGN_CORNERS"},
    ),
    Case(
        "CropAndResize",
        [IMAGE],
        IMAGE[:1, ::4, ::5],
        [np.asarray([[0, 0, 1, 1]], F32), ints(0), ints(2, 2)],
        {"method": "LINEAR"},
    ),
    Case(
        "ROIPooling",
        [EVEN],
        EVEN[:1].max((1, 2), keepdims=True),
        [np.asarray([[0, 0, 0, 5, 3]], F32)],
        {"pooled_h": 1, "pooled_w": 1, "scale": 1.0},
    ),
    Case(
        "FormatTranspose",
        [IMAGE],
        IMAGE.transpose(0, 3, 1, 2),
        attributes={"src_format": "NHWC", "dst_format": "NCHW"},
    ),
    Case(
        "PriorBox",
        [floats(1, 1, 1, 2)],
        np.asarray([[0.25, 0.25, 0.75, 0.75], [0.1] * 4]).T.reshape(1, 4, 1, 2),
        attributes={
            "min_sizes": [4],
            "variances": [0.1] * 4,
            "image_size_w": 8,
            "image_size_h": 8,
            "offset": 0.5,
            "clip": True,
        },
    ),
    # shapes
    Case("Reshape", [X], X.reshape(2, 12), [ints(0, -1)]),
    Case("Transpose", [X], X.transpose(2, 0, 1), [ints(2, 0, 1)]),
    Case("Flatten", [X], X.reshape(2, 12)),
    Case("Shape", [X], np.asarray([2, 3, 4]), outputs=[(I32, (3,))]),
    Case("Rank", [X], np.asarray(3), outputs=[(I32, ())]),
    Case("Size", [X], np.asarray(24), outputs=[(I32, ())]),
    Case("ExpandDims", [X], X[:, None], [ints(1)]),
    Case("Unsqueeze", [X], X[:, None], attributes={"axis": [1]}),
    Case("Squeeze", [X[:, :1]], X[:, 0], attributes={"axis": [1]}),
    Case("BroadcastTo", [X[:1]], X[:1].repeat(2, 0), attributes={"shape": [2, 3, 4]}),
    Case("TileFusion", [X], np.tile(X, (1, 2, 1)), [ints(1, 2, 1)]),
    Case("Concat", [X, Y], np.concatenate([X, Y], 1), attributes={"axis": 1}),
    Case("Stack", [X, Y], np.stack([X, Y], 1), attributes={"axis": 1}),
    Case("Unstack", [X], [X[0], X[1]], outputs=[(F32, (3, 4))] * 2),
    Case(
        "Split",
        [X],
        [X[:, :1], X[:, 1:]],
        attributes={"size_splits": [1, 2], "axis": 1, "output_num": 2},
        outputs=[(F32, ())] * 2,
    ),
    Case(
        "Split",
        [X],
        [X[..., :2], X[..., 2:]],
        attributes={"axis": 2, "output_num": 2},
        outputs=[(F32, ())] * 2,
    ),
    Case(
        "SplitWithOverlap",
        [EVEN],
        [EVEN[:, :3], EVEN[:, 1:]],
        attributes={
            "split_dim": 1,
            "number_split": 2,
            "ratio": [1, 1],
            "extend_top": [0, 1],
            "extend_bottom": [1, 0],
        },
        outputs=[(F32, ())] * 2,
    ),
    Case("Fill", [np.asarray(3, F32)], np.full((2, 2), 3, F32), [ints(2, 2)]),
    Case("FillV2", [], np.full((2, 2), 3, F32), [ints(2, 2), np.asarray(3, F32)]),
    Case(
        "ConstantOfShape",
        [],
        np.full((2, 3), 1.5, F32),
        [ints(2, 3)],
        {"value": [1.5], "data_type": 43},
    ),
    Case(
        "Range",
        [],
        np.arange(1, 9, 2),
        attributes={"start": 1, "limit": 9, "delta": 2},
        outputs=[(I32, (4,))],
    ),
    Case(
        "Range",
        [],
        np.arange(1, 9, 2),
        [np.asarray(v, I32) for v in (1, 9, 2)],
        outputs=[(I32, (4,))],
    ),
    Case(
        "LinSpace",
        [],
        np.linspace(0, 1, 5),
        [np.asarray(0, F32), np.asarray(1, F32), np.asarray(5, I32)],
    ),
    Case(
        "OneHot",
        [INDICES],
        np.eye(4)[INDICES] * 3 + 1,
        [np.asarray(4, I32), np.asarray(4, F32), np.asarray(1, F32)],
        {"axis": -1},
    ),
    Case(
        "OneHot",
        [INDICES],
        np.eye(4)[INDICES],
        [np.asarray(4, I32), np.asarray([0, 1], F32)],
        {"axis": -1},
    ),
    Case("Tril", [X], np.tril(X)),
    Case("Triu", [X], np.triu(X)),
    # slices
    Case("SliceFusion", [X], X[:, 1:3, 1:], [ints(0, 1, 1), ints(-1, 2, -1)], {"axes": [0, 1, 2]}),
    Case(
        "StridedSlice",
        [X],
        X[0, 1:, ::2],
        [ints(0, 1, 0), ints(1, 0, 4), ints(1, 1, 2)],
        {"shrink_axis_mask": 1, "end_mask": 2},
    ),
    Case("StridedSlice", [X], X[:, :, 3:0:-1], [ints(3), ints(0), ints(2), ints(-1)]),
    Case(
        "Crop",
        [IMAGE, EVEN[:, :2, :3]],
        IMAGE[:, 1:3, 1:4],
        attributes={"axis": 1, "offsets": [1, 1, 0]},
    ),
    Case(
        "PadFusion",
        [X],
        np.pad(X, ((0, 0), (1, 2), (0, 1)), constant_values=2.0),
        [ints(0, 0, 1, 2, 0, 1)],
        {"constant_value": 2.0},
    ),
    Case(
        "PadFusion",
        [X],
        np.pad(X, ((0, 0), (1, 1), (0, 1)), "reflect"),
        [ints(0, 0, 1, 1, 0, 1)],
        {"padding_mode": "REFLECT"},
    ),
    Case(
        "PadFusion",
        [X],
        np.pad(X, ((0, 0), (1, 1), (0, 1)), "symmetric"),
        attributes={
            "padding_mode": "SYMMETRIC",
            "paddings": {"data": [{"data": [0, 0]}, {"data": [1, 1]}, {"data": [0, 1]}]},
        },
    ),
    # indices
    Case("Gather", [X, INDICES], X[:, INDICES], [ints(1)]),
    Case("GatherNd", [X], X[[0, 1], [2, 1]], [np.asarray([[0, 2], [1, 1]], I32)]),
    Case(
        "GatherD",
        [X],
        np.take_along_axis(X, np.zeros((2, 1, 4), int), 1),
        [np.asarray(1, I32), np.zeros((2, 1, 4), I32)],
    ),
    Case("EmbeddingLookupFusion", [MATRIX, INDICES], MATRIX[INDICES]),
    Case(
        "EmbeddingLookupFusion",
        [MATRIX * 9, INDICES],
        (MATRIX / np.linalg.norm(MATRIX, axis=1, keepdims=True))[INDICES],
        attributes={"max_norm": 1.0},
    ),
    Case("ReverseV2", [X], X[:, ::-1], attributes={"axis": [1]}),
    Case(
        "ReverseSequence",
        [X],
        np.stack([X[0, [1, 0, 2]], X[1, ::-1]]),
        [ints(2, 3)],
        {"seq_dim": 1, "batch_dim": 0},
    ),
    Case(
        "ScatterNd",
        [],
        np.asarray([3, 0, 4, 0]),
        [np.asarray([[0], [2], [0]], I32), np.asarray([1, 4, 2], F32), ints(4)],
    ),
    Case(
        "TensorScatterAdd",
        [X[0]],
        X[0] + scattered((3, 4), np.asarray([[1], [1]]), np.ones((2, 4), F32)),
        [np.asarray([[1], [1]], I32), np.ones((2, 4), F32)],
    ),
    Case(
        "ScatterNdUpdate",
        [X[0]],
        np.concatenate([X[0, :2], np.ones((1, 4))]),
        [np.asarray([[2]], I32), np.ones((1, 4), F32)],
    ),
    Case(
        "ScatterElements",
        [X[0]],
        np.concatenate([np.ones((1, 4)), X[0, 1:]]),
        [np.zeros((1, 4), I32), np.ones((1, 4), F32)],
        {"axis": 0},
    ),
    Case(
        "SparseToDense",
        [],
        np.asarray([[9, 5, 9], [9, 9, 6]]),
        [
            np.asarray([[0, 1], [1, 2]], I32),
            ints(2, 3),
            np.asarray([5, 6], F32),
            np.asarray(9, F32),
        ],
    ),
    Case(
        "SparseSegmentSum",
        [MATRIX],
        np.stack([MATRIX[2] + MATRIX[0], MATRIX[1] * 2]),
        [INDICES, ints(0, 0, 1, 1)],
    ),
    Case(
        "UnsortedSegmentSum",
        [MATRIX],
        np.stack([MATRIX[1] * 0, MATRIX[0] + MATRIX[2], MATRIX[1] + MATRIX[3]]),
        [ints(1, 2, 1, 2), np.asarray(3, I32)],
    ),
    Case(
        "Unique",
        [np.asarray([3, 1, 3, 2], F32)],
        [np.asarray([3, 1, 2]), np.asarray([0, 1, 0, 2])],
        outputs=[(F32, (-1,)), (I32, (4,))],
    ),
    Case(
        "NonMaxSuppression",
        [],
        np.asarray([[0, 0, 1], [0, 0, 2]]),
        [
            np.asarray([[[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6]]], F32),
            np.asarray([[[0.5, 0.9, 0.6]]], F32),
            np.asarray(3, I32),
            np.asarray(0.5, F32),
            np.asarray(0.1, F32),
        ],
        outputs=[(I32, (-1, 3))],
    ),
    Case(
        "SparseReshape",
        [],
        [np.asarray([[0, 1], [1, 2]]), np.asarray([2, 3])],
        [np.asarray([[1, 0], [5, 0]], I32), ints(6, 1), ints(2, -1)],
        outputs=[(I32, (2, 2)), (I32, (2,))],
    ),
    *(
        Case(
            "DetectionPostProcess",
            [],
            [
                np.asarray([[[3.0, 3.0, 5.0, 5.0], [0.0, 0.0, 2.0, 2.0], [0.0] * 4]]),
                np.asarray([[1.0, 0.0, 0.0]]),
                np.asarray([[0.9, 0.8, 0.0]]),
                np.asarray([2.0]),
            ],
            [
                np.zeros((1, 3, 4), F32),
                np.asarray([[[0.1, 0.8, 0.1], [0.2, 0.7, 0.0], [0.1, 0.2, 0.9]]], F32),
                np.asarray([[1, 1, 2, 2], [1, 1, 2, 2.1], [4, 4, 2, 2]], F32),
            ],
            {
                "scale": [10.0, 10.0, 5.0, 5.0],
                "nms_iou_threshold": 0.5,
                "nms_score_threshold": 0.3,
                "max_detections": 3,
                "detections_per_class": 3,
                "max_classes_per_detection": 1,
                "num_classes": 2,
                "use_regular_nms": regular,
            },
            [(F32, (1, 3, 4)), (F32, (1, 3)), (F32, (1, 3)), (F32, (1,))],
        )
        for regular in (False, True)
    ),
    # reductions
    *(
        Case(
            "ReduceFusion",
            [X],
            function(X),
            [ints(1)],
            {"mode": mode, "keep_dims": False, "coeff": 1.0},
        )
        for mode, function in {
            "ReduceMean": lambda x: x.mean(1),
            "ReduceMax": lambda x: x.max(1),
            "ReduceMin": lambda x: x.min(1),
            "ReduceProd": lambda x: x.prod(1),
            "ReduceSum": lambda x: x.sum(1),
            "ReduceSumSquare": lambda x: (x**2).sum(1),
            "ReduceASum": lambda x: np.abs(x).sum(1),
            "ReduceL2": lambda x: np.sqrt((x**2).sum(1)),
        }.items()
    ),
    Case(
        "ReduceFusion",
        [X],
        0.5 * X.sum((1, 2)),
        [ints(1)],
        {"mode": "ReduceSum", "reduce_to_end": True, "coeff": 0.5},
    ),
    Case(
        "ReduceFusion",
        [X > 0],
        (X > 0).all(1, keepdims=True),
        [ints(1)],
        {"mode": "ReduceAll", "keep_dims": True},
        outputs=[(bool, ())],
    ),
    Case("All", [X > 0], (X > 0).all(1), [ints(1)], outputs=[(bool, ())]),
    Case("ArgMaxFusion", [X], X.argmax(1), attributes={"axis": 1}, outputs=[(I32, ())]),
    Case(
        "ArgMinFusion",
        [X],
        X.argmin(1)[:, None],
        attributes={"axis": 1, "keep_dims": True},
        outputs=[(I32, ())],
    ),
    Case("ArgMaxFusion", [X], X.max(1), attributes={"axis": 1, "out_max_value": True}),
    Case(
        "TopKFusion",
        [X],
        [np.sort(X)[..., :1:-1], np.argsort(-X)[..., :2]],
        [np.asarray(2, I32)],
        outputs=[(F32, (2, 3, 2)), (I32, (2, 3, 2))],
    ),
    # sequences, spectra, losses
    Case("LSTM", [SEQUENCE], lstm(), [WX, WR, WB, STATE, STATE], outputs=[(F32, ())] * 3),
    Case("GRU", [SEQUENCE], gru(), [GX, GR, GB, STATE], outputs=[(F32, ())] * 2),
    Case(
        "SmoothL1Loss",
        [X, Y],
        np.where(np.abs(X - Y) < 1, 0.5 * (X - Y) ** 2, np.abs(X - Y) - 0.5),
        attributes={"beta": 1.0},
    ),
    Case(
        "SigmoidCrossEntropyWithLogits",
        [X, POSITIVE],
        np.maximum(X, 0) - X * POSITIVE + np.log1p(np.exp(-np.abs(X))),
    ),
    Case(
        "FakeQuantWithMinMaxVars",
        [X],
        np.round(X * 100).clip(0, 255) / 100,
        [np.asarray(0, F32), np.asarray(2.55, F32)],
        {"num_bits": 8},
    ),
    # rows of different lengths, sparse rows, and rows found by keys
    Case(
        "RaggedRange",
        [ints(2, 5, 8, 0), ints(3, 5, 12, -5)],
        [ints(0, 1, 1, 5, 5), ints(2, 8, 9, 10, 11)],
        [ints(1)],
        outputs=[(I32, ()), (I32, ())],
    ),
    Case(
        "RaggedRange",
        [np.asarray([0, 1], F32), np.asarray([1, 0], F32), np.asarray([0.3, -0.5], F32)],
        [ints(0, 4, 6), [0, 0.3, 0.6, 0.9, 1, 0.5]],
        outputs=[(I32, ()), (F32, ())],
    ),
    Case(
        "SparseFillEmptyRows",
        [np.asarray([[3, 1], [0, 1], [0, 3], [2, 0]], I32), np.asarray([1, 2, 3, 4], F32)],
        [
            [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0], [5, 0]],
            [2, 3, -1, 4, 1, -1, -1],
            [False, True, False, False, True, True],
            [4, 0, 1, 3],
        ],
        [ints(6, 5), np.asarray(-1, F32)],
        outputs=[(I32, ()), (F32, ()), (bool, ()), (I32, ())],
    ),
    Case(
        "HashtableLookup",
        [ints(7, 1, 3)],
        [[[0, 0], [0, 1], [2, 3]], [0, 1, 1]],
        [ints(1, 3, 5), np.arange(6, dtype=F32).reshape(3, 2)],
        outputs=[(F32, ()), (np.uint8, ())],
    ),
]


NAMES = [f"{at}-{case.primitive}" for at, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_primitive_computes_what_numpy_does(tmp_path: Path, case: Case) -> None:
    expected = case.expected if isinstance(case.expected, list) else [case.expected]
    outputs = case.outputs or [(F32, ())]
    results = ran(tmp_path, case.primitive, case.inputs, case.constants, case.attributes, outputs)
    for result, wanted, (dtype, _) in zip(results, expected, outputs, strict=True):
        assert result.dtype == dtype and result.shape == np.shape(wanted)
        np.testing.assert_allclose(result, np.asarray(wanted).astype(dtype), rtol=2e-4, atol=2e-5)
