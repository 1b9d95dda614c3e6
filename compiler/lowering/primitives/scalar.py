"""Python numbers: computed at once where they are known, else on 0-d tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    BOOL,
    INT64,
    Builder,
    LoweringFunction,
    OnnxTensor,
    Value,
    as_dtype,
    dtype_of,
    is_number,
    lowers,
    lowers_each,
    moderate,
    result_dtype,
)
from .compare import compared
from .math import binary, floor_div, floor_mod

_LONGEST_TUPLE = 1 << 14  # of tensors, each from a node of its own
_MOST_BITS = 128
PythonOperator = Callable[[Value, Value], Value]


def _power(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() * b > _MOST_BITS:
        raise ValueError(f"{a} ** {b} is too large")
    return a**b


_OPERATORS: dict[str, tuple[PythonOperator, LoweringFunction]] = {
    "ScalarAdd": (operator.add, partial(binary, op_type="Add")),
    "ScalarSub": (operator.sub, partial(binary, op_type="Sub")),
    "ScalarMul": (operator.mul, partial(binary, op_type="Mul")),
    "ScalarDiv": (operator.truediv, partial(binary, op_type="Div")),
    "ScalarPow": (_power, partial(binary, op_type="Pow")),
    "ScalarMax": (max, partial(binary, op_type="Max")),
    "ScalarMin": (min, partial(binary, op_type="Min")),
    "ScalarEq": (operator.eq, partial(compared, op_type="Equal")),
    "ScalarGt": (operator.gt, partial(compared, op_type="Greater")),
    "ScalarLt": (operator.lt, partial(compared, op_type="Less")),
    "ScalarGe": (operator.ge, partial(compared, op_type="GreaterOrEqual")),
    "ScalarLe": (operator.le, partial(compared, op_type="LessOrEqual")),
    "ScalarFloorDiv": (operator.floordiv, floor_div),
    "ScalarMod": (operator.mod, floor_mod),
}


@lowers_each("operators", _OPERATORS)
def scalar_operator(
    b: Builder, x: Value, y: Value, *, operators: tuple[PythonOperator, LoweringFunction]
) -> Value:
    """An operator of two numbers; whole numbers that squaring makes ever longer are refused."""
    python, lower = operators
    if not is_number(x) or not is_number(y):
        return lower(b, x, y)
    found = python(x, y)
    if isinstance(found, int) and found.bit_length() > _MOST_BITS:
        raise ValueError(f"a number of {found.bit_length()} bits, expected at most {_MOST_BITS}")
    return found


@lowers("ScalarUsub")
def negative(b: Builder, a: Value) -> Value:
    """-a."""
    return -a if is_number(a) else b.op("Neg", a)


@lowers("ScalarUadd")
def positive(b: Builder, a: Value) -> Value:
    """a itself."""
    return a


@lowers("ScalarBool")
def truth(b: Builder, a: Value) -> Value:
    """Whether a number is other than 0."""
    return bool(a) if is_number(a) else b.cast(a, BOOL)


@lowers("BoolNot", "bool_not")
def opposite(b: Builder, a: Value) -> Value:
    """Whether a number is 0."""
    return b.op("Not", b.cast(a, BOOL)) if isinstance(a, OnnxTensor) else not a


@lowers_each("wanted", {"is_": True, "is_not": False})
def same_object(b: Builder, a: Value, other: Value, *, wanted: bool) -> Value:
    """Python's `is`, or `is not`, of None, truth values and all other values."""
    if isinstance(a, OnnxTensor) and isinstance(other, bool):
        same = b.cast(a, BOOL)
        return same if other is wanted else b.op("Not", same)
    return (a is other) is wanted


@lowers("ScalarToTensor", "TensorToScalar", "ScalarCast")
def scalar_to_tensor(b: Builder, value: Value, dtype: Value = None) -> Value:
    """A Python number as a 0-d tensor, and back; `dtype` is a MindSpore type id."""
    if isinstance(value, OnnxTensor):
        return b.cast(value, dtype_of(dtype, value.dtype))
    if isinstance(value, np.ndarray):
        return value.item() if dtype is None else value.astype(dtype_of(dtype, value.dtype))
    return value if dtype is None else np.asarray(value, dtype_of(dtype, INT64))


@lowers("TupleToTensor", "ListToTensor")
def tuple_to_tensor(b: Builder, items: Value, dtype: Value = None) -> Value:
    """A tuple of numbers as a 1-d tensor; a range of unknown length is one already."""
    if isinstance(items, OnnxTensor):
        return b.cast(items, dtype_of(dtype, items.dtype))
    wanted = dtype_of(dtype, result_dtype(b, *items))
    if all(is_number(item) for item in items):
        return np.array(items, wanted)
    rows = [b.op("Reshape", as_dtype(b, item, wanted), (1,)) for item in items]
    return b.op("Concat", *rows, axis=0)


@lowers("TensorToTuple", "TensorToList")
def tensor_to_tuple(b: Builder, x: Value) -> Value:
    """The elements of a 1-d tensor of known length as numbers."""
    if isinstance(x, np.ndarray):
        return tuple(x.tolist())
    if not x.static or x.rank != 1:
        raise ValueError("the length must be known when the model is built, and it is not")
    kind, count = TensorType(x.dtype, ()), moderate(x.shape[0], "the length", _LONGEST_TUPLE)
    return tuple(b.op("Gather", x, np.asarray(i, np.int64), type=kind) for i in range(count))
