"""Arithmetic on Python numbers: done at once where they are known, else on 0-d tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..mindir.graph import TensorType
from . import compare, division, math
from .arguments import dtype_of, is_number, moderate
from .builder import Builder, Tensor, Value
from .registry import Lower, lowers

_INT64 = np.dtype(np.int64)
_LONGEST_TUPLE = 1 << 14  # of tensors, each from a node of its own
_MOST_BITS = 128
_PYTHON: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "ScalarAdd": (operator.add, "Add"), "ScalarSub": (operator.sub, "Sub"), "ScalarMul": (operator.mul, "Mul"),
    "ScalarPow": (lambda a, b: _power(a, b), "Pow"), "ScalarMax": (max, "Max"), "ScalarMin": (min, "Min"),
}
_COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "ScalarEq": (operator.eq, "Equal"), "ScalarGt": (operator.gt, "Greater"), "ScalarLt": (operator.lt, "Less"),
    "ScalarGe": (operator.ge, "GreaterOrEqual"), "ScalarLe": (operator.le, "LessOrEqual"),
}


def _folding(python: Callable[[Any, Any], Any], lower: Lower) -> Lower:
    """The Python operator where both numbers are known, else the lowering."""
    def fold(b: Builder, a: Value, b_: Value) -> Value:
        return _short(python(a, b_)) if is_number(a) and is_number(b_) else lower(b, a, b_)

    return fold


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() * b > _MOST_BITS:
        raise ValueError(f"{a} ** {b} is too large")
    return a**b


def _short(number: Any) -> Any:
    """`number`, unless it is a whole one that squaring made longer than any type: the next would be twice as long."""
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise ValueError(f"a number of {number.bit_length()} bits, expected at most {_MOST_BITS}")
    return number


def _arithmetic(op_type: str) -> Lower:
    return lambda b, x, y: math.arithmetic(b, op_type, x, y)


def _compared(op_type: str) -> Lower:
    return lambda b, x, y: compare.compared(b, op_type, x, y)


for _primitive, (_operator, _op_type) in _PYTHON.items():
    lowers(_primitive)(_folding(_operator, _arithmetic(_op_type)))
for _primitive, (_operator, _op_type) in _COMPARE.items():
    lowers(_primitive)(_folding(_operator, _compared(_op_type)))
lowers("ScalarDiv")(_folding(operator.truediv, _arithmetic("Div")))
lowers("ScalarFloorDiv")(_folding(operator.floordiv, division.floor_div))
lowers("ScalarMod")(_folding(operator.mod, division.floor_mod))


@lowers("ScalarUsub", "ScalarUadd")
def negative(b: Builder, a: Value) -> Value:
    """-a, or a itself."""
    if b.node and b.node.primitive == "ScalarUadd":
        return a
    return -a if is_number(a) else b.op("Neg", a)


@lowers("ScalarBool")
def truth(b: Builder, a: Value) -> Value:
    """Whether a number is other than 0."""
    return bool(a) if is_number(a) else b.cast(a, np.dtype(np.bool_))


@lowers("BoolNot", "bool_not")
def opposite(b: Builder, a: Value) -> Value:
    """Whether a number is 0."""
    return b.op("Not", b.cast(a, np.dtype(np.bool_))) if isinstance(a, Tensor) else not a


@lowers("is_", "is_not")
def same_object(b: Builder, a: Value, other: Value) -> Value:
    """Python's `is` between None, truth values and what is neither."""
    opposite_wanted = b.node is not None and b.node.primitive == "is_not"
    if isinstance(a, Tensor) and isinstance(other, bool):
        same = b.cast(a, np.dtype(np.bool_))
        return same if other is not opposite_wanted else b.op("Not", same)
    return (a is other) is not opposite_wanted


@lowers("ScalarToTensor", "TensorToScalar", "ScalarCast")
def scalar_to_tensor(b: Builder, value: Value, dtype: Any = None) -> Value:
    """A Python number as a 0-d tensor, and back; `dtype` is a MindSpore type id."""
    if isinstance(value, Tensor):
        return b.cast(value, dtype_of(dtype, value.dtype))
    if isinstance(value, np.ndarray):
        return value.item() if dtype is None else value.astype(dtype_of(dtype, value.dtype))
    return value if dtype is None else np.asarray(value, dtype_of(dtype, _INT64))


@lowers("TupleToTensor", "ListToTensor")
def tuple_to_tensor(b: Builder, items: Value, dtype: Value = None) -> Value:
    """A tuple of numbers as a 1-d tensor, which a range of unknown length is already."""
    if isinstance(items, Tensor):
        return b.cast(items, dtype_of(dtype, items.dtype))
    wanted = dtype_of(dtype, math.result_dtype(b, *items))
    if all(is_number(item) for item in items):
        return np.array(items, wanted)
    one = [b.op("Reshape", math.as_dtype(b, item, wanted), (1,)) for item in items]
    return b.op("Concat", *one, axis=0)


@lowers("TensorToTuple", "TensorToList")
def tensor_to_tuple(b: Builder, x: Value) -> Value:
    """The elements of a 1-d tensor of known length as numbers."""
    if isinstance(x, np.ndarray):
        return tuple(x.tolist())
    if not x.static or x.rank != 1:
        raise ValueError("the length must be known when the model is built, and it is not")
    kind, count = TensorType(x.dtype, ()), moderate(x.shape[0], "the length", _LONGEST_TUPLE)
    return tuple(b.op("Gather", x, np.asarray(i, np.int64), type=kind) for i in range(count))
