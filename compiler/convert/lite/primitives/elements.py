"""Functions of elements: arithmetic, comparisons and activations as .ms files have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....element_types.value_types import TensorType
from ...mindir.values import MindirValue, ResultType
from .registry import translates

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes

_SAME = """
    Abs Ceil Cos Equal Erf Floor FloorMod Greater GreaterEqual Less LessEqual Log LogicalAnd
    LogicalNot LogicalOr Maximum Minimum Mod Neg NotEqual OnesLike Reciprocal Rsqrt Select Sin Sqrt
    Square
""".split()
_RENAMED = {
    "Add": "AddFusion",
    "Sub": "SubFusion",
    "Mul": "MulFusion",
    "Div": "DivFusion",
    "TruncateDiv": "DivFusion",
    "Pow": "PowFusion",
    "Exp": "ExpFusion",
}
_ACTIVATIONS = {
    "ReLU": "RELU",
    "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
    "Softplus": "SOFTPLUS",
    "Softsign": "SOFTSIGN",
    "HSwish": "HSWISH",
    "Sign": "SIGN",
}


def _register() -> None:
    for name, target in {**{one: one for one in _SAME}, **_RENAMED}.items():
        translates(name, target=target)(same)
    for name, word in _ACTIVATIONS.items():
        translates(name, word=word)(activation)


def same(b: LiteNodes, kind: ResultType, *inputs: MindirValue, target: str) -> MindirValue:
    """A primitive that takes the same tensors."""
    return b.node(target, inputs, kind)


def activation(b: LiteNodes, kind: ResultType, x: MindirValue, *, word: str) -> MindirValue:
    """An Activation without parameters."""
    return b.node("Activation", [x], kind, activation_type=word)


_register()


@translates("GeLU")
def gelu(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """The form by tanh."""
    return b.node("Activation", [x], kind, activation_type="GELU", approximate=True)


@translates("Round")
def rounded(b: LiteNodes, kind: ResultType, x: MindirValue, decimals: MindirValue) -> MindirValue:
    """Half to even."""
    if decimals.constant:
        raise ValueError("rounding to decimals is not supported")
    return b.node("Round", [x], kind)


@translates("Mish")
def mish(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """x tanh(softplus(x))."""
    soft = activation(b, kind, x, word="SOFTPLUS")
    return b.node("MulFusion", [x, activation(b, kind, soft, word="TANH")], kind)


@translates("Tan")
def tangent(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """sin x / cos x."""
    return b.node("DivFusion", [b.node("Sin", [x], kind), b.node("Cos", [x], kind)], kind)


@translates("Sinh", target="SubFusion")
@translates("Cosh", target="AddFusion")
def hyperbolic(b: LiteNodes, kind: ResultType, x: MindirValue, *, target: str) -> MindirValue:
    """(exp x - exp -x) / 2, or their sum."""
    up, down = (b.node("ExpFusion", [x], kind, scale=scale) for scale in (1.0, -1.0))
    half = np.asarray(0.5, x.dtype)
    return b.node("MulFusion", [b.node(target, [up, down], kind), half], kind)


@translates("LogicalXor")
def exclusive(b: LiteNodes, kind: ResultType, x: MindirValue, y: MindirValue) -> MindirValue:
    """Truth values that differ."""
    numbers = [_cast(b, one, np.dtype(np.int32)) for one in (x, y)]
    return b.node("NotEqual", numbers, kind)


@translates("IsNan")
def is_nan(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """NaN alone differs from itself."""
    return b.node("NotEqual", [x, x], kind)


@translates("Cast")
def cast(b: LiteNodes, kind: ResultType, x: MindirValue, dtype: MindirValue) -> MindirValue:
    """Another dtype."""
    return b.node("Cast", [x, np.asarray(dtype.constant, np.int32)], kind)


def _cast(b: LiteNodes, x: MindirValue, dtype: np.dtype[np.generic]) -> MindirValue:
    from ....element_types.dtypes import to_type_id

    kind = TensorType(dtype, x.shape)
    return b.node("Cast", [x, np.asarray(to_type_id(dtype), np.int32)], kind)


@translates("Softmax", target="Softmax")
@translates("LogSoftmax", target="LogSoftmax")
def softmax(
    b: LiteNodes, kind: ResultType, x: MindirValue, axis: MindirValue, *, target: str
) -> MindirValue:
    """Along one axis."""
    place = axis.constant[0] if isinstance(axis.constant, tuple) else axis.constant
    return b.node(target, [x], kind, axis=[place] if target == "Softmax" else place)


@translates("ReduceMean", mode="ReduceMean")
@translates("ReduceMax", mode="ReduceMax")
@translates("ReduceMin", mode="ReduceMin")
@translates("ReduceProd", mode="ReduceProd")
@translates("ReduceSum", mode="ReduceSum")
def reduced(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    axes: MindirValue,
    keep: MindirValue,
    *skip: MindirValue,
    mode: str,
) -> MindirValue:
    """A ReduceFusion; without axes, over all."""
    places = axes.constant if isinstance(axes.constant, tuple) else (axes.constant,)
    return b.node(
        "ReduceFusion",
        [x, tuple(places) or tuple(range(x.rank))],
        kind,
        mode=mode,
        keep_dims=bool(keep.constant),
        coeff=1.0,
    )


@translates("CumSum")
def cumulated(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    axis: MindirValue,
    exclusive: MindirValue,
    reverse: MindirValue,
) -> MindirValue:
    """Sums of all elements up to each."""
    flags = {"exclusive": bool(exclusive.constant), "reverse": bool(reverse.constant)}
    return b.node("CumSum", [x, axis], kind, **flags)
