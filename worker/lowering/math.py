"""Elementwise arithmetic: one ONNX operator each, or a few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import is_float
from ..mindir.graph import ScalarType, TensorType
from .arguments import dtype_of, integer, is_number, number
from .builder import Builder, Tensor, Value
from .complex_numbers import product, total
from .registry import Lower, lowers
from .tensor import ComplexPair

_BINARY = {
    "Sub": "Sub", "Muls": "Mul", "Div": "Div", "Divs": "Div", "RealDiv": "Div",
    "Maximum": "Max", "Minimum": "Min", "Pow": "Pow", "PowTensorScalar": "Pow", "PowScalarTensor": "Pow",
}
_UNARY = {
    "Abs": "Abs", "Neg": "Neg", "Sign": "Sign", "Floor": "Floor", "Ceil": "Ceil", "Rint": "Round", "Sqrt": "Sqrt",
    "Reciprocal": "Reciprocal", "Inv": "Reciprocal", "Exp": "Exp", "Log": "Log", "Erf": "Erf", "Sin": "Sin",
    "Cos": "Cos", "Tan": "Tan", "Asin": "Asin", "ACos": "Acos", "AcosExt": "Acos", "AsinExt": "Asin", "Atan": "Atan",
    "AtanExt": "Atan", "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh", "AsinhExt": "Asinh", "Acosh": "Acosh",
    "AcoshExt": "Acosh", "Atanh": "Atanh", "Tanh": "Tanh", "Sigmoid": "Sigmoid",
}
# The dtypes that onnxruntime's Where lacks, and what holds all of their values.
_SELECTED: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(np.int32) for name in ("bool", "int8", "int16", "uint16")},
    "uint32": np.dtype(np.int64), "uint64": np.dtype(np.int64), "bfloat16": np.dtype(np.float32)}
_INTEGERS_STAY = {"Abs", "Neg", "Sign"}


def common_dtype(*values: Value) -> np.dtype[np.generic]:
    """The dtype in which values meet: that of the tensors, float32 where integers meet a float number."""
    dtypes = [value.dtype for value in values if isinstance(value, (Tensor, np.ndarray))]
    if not dtypes:
        return np.dtype(np.float32 if any(isinstance(value, float) for value in values) else np.int64)
    dtype = _promoted(dtypes)
    if dtype.kind in "iub" and any(isinstance(value, float) for value in values):
        return np.dtype(np.float32)
    return np.dtype(np.int64) if dtype.kind == "b" and any(type(value) is int for value in values) else dtype


def _promoted(dtypes: list[np.dtype[np.generic]]) -> np.dtype[np.generic]:
    """The common dtype: that of the floats if there are any; numpy knows none of bfloat16 with float16 or integers."""
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    if len({dtype for dtype in floats if dtype.itemsize == 2}) == 2:
        floats.append(np.dtype(np.float32))
        floats = [dtype for dtype in floats if dtype.itemsize > 2]
    return np.result_type(*(floats or dtypes))


def result_dtype(b: Builder, *values: Value) -> np.dtype[np.generic]:
    """The dtype that MindSpore recorded for the node's result, else the values' common one."""
    kind = b.node.type if b.node else None
    return kind.dtype if isinstance(kind, (TensorType, ScalarType)) else common_dtype(*values)


def arithmetic(b: Builder, op_type: str, *values: Value, dtype: np.dtype[np.generic] | None = None) -> Tensor:
    """An ONNX operator on values brought to one dtype, by default the recorded one."""
    dtype = dtype or result_dtype(b, *values)
    if op_type in ("Max", "Min") and len(values) == 2 and wide_integers(dtype):
        x, y = (as_dtype(b, value, dtype) for value in values)
        return where(b, b.op("Greater" if op_type == "Max" else "Less", x, y), x, y, dtype)
    result: Tensor = b.op(op_type, *(as_dtype(b, value, dtype) for value in values))
    return result


def wide_integers(dtype: np.dtype[Any]) -> bool:
    """Whether integers of a dtype may be such as onnxruntime's Max, Min, ReduceMax and ReduceMin get wrong.

    Of int64 beyond 32 bits they compare the lower halves as signed numbers: the smaller of 5 and 3e9 is 3e9 to
    them. Its comparisons, ArgMax and ArgMin are right.
    """
    return dtype in (np.int64, np.uint32, np.uint64)


def as_dtype(b: Builder, value: Value, dtype: np.dtype[np.generic]) -> Tensor:
    """A value as a tensor of `dtype`; constants are converted, not cast at run time."""
    if is_number(value):
        return b.tensor(value, dtype)
    if isinstance(value, np.ndarray) and value.dtype != dtype:
        return b.tensor(value.astype(dtype))
    return b.cast(value, dtype)


def where(b: Builder, condition: Value, yes: Value, no: Value, dtype: np.dtype[np.generic]) -> Tensor:
    """yes where the condition holds, else no, both in `dtype`, in which a Where kernel may be missing."""
    small = _SELECTED.get(dtype.name, dtype)
    result: Tensor = b.op("Where", as_dtype(b, condition, np.dtype(np.bool_)), as_dtype(b, yes, small),
                          as_dtype(b, no, small), type=TensorType(small, None))
    return b.cast(result, dtype)


def _binary(op_type: str) -> Lower:
    def lower(b: Builder, input: Value, other: Value) -> Value:
        if op_type == "Sub" and any(isinstance(value, ComplexPair) for value in (input, other)):
            return total(b, op_type, input, other)
        return arithmetic(b, op_type, input, other)

    return lower


def _unary(op_type: str) -> Lower:
    def lower(b: Builder, input: Value) -> Value:
        x = b.tensor(input)
        return b.op(op_type, x) if op_type in _INTEGERS_STAY else b.op(op_type, floating(b, x))

    return lower


def floating(b: Builder, x: Value) -> Tensor:
    """x, in the recorded dtype (else float32) if it is of integers, which float functions do not take."""
    tensor = b.tensor(x)
    if tensor.dtype.kind not in "iub":
        return tensor
    wanted = result_dtype(b, tensor)
    return b.cast(tensor, wanted if is_float(wanted) else np.dtype(np.float32))


for _primitive, _op_type in _BINARY.items():
    lowers(_primitive)(_binary(_op_type))
for _primitive, _op_type in _UNARY.items():
    lowers(_primitive)(_unary(_op_type))


@lowers("Mul")
def mul(b: Builder, input: Value, other: Value) -> Value:
    """input * other; x * rsqrt(v) becomes x / sqrt(v), the form of RMSNorm that onnxruntime fuses."""
    if any(isinstance(value, ComplexPair) for value in (input, other)):
        return product(b, input, other)
    root = b.made(other, "Reciprocal")
    if root and root.inputs[0] and b.made(root.inputs[0], "Sqrt") and isinstance(input, Tensor):
        return arithmetic(b, "Div", input, root.inputs[0])
    return arithmetic(b, "Mul", input, other)


@lowers("Rsqrt")
def rsqrt(b: Builder, input: Value) -> Value:
    """1 / sqrt(input)."""
    return b.op("Reciprocal", b.op("Sqrt", floating(b, input)))


@lowers("Square")
def square(b: Builder, input: Value) -> Value:
    """input squared; Pow is what onnxruntime looks for in RMSNorm, and it multiplies."""
    x = b.tensor(input)
    return b.op("Pow", x, 2.0) if is_float(x.dtype) else b.op("Mul", x, x)


@lowers("AddExt", "SubExt", "AddScalar", "SubScalar")
def add_ext(b: Builder, input: Value, other: Value, alpha: Value = 1) -> Value:
    """input + alpha * other, or minus."""
    op_type = "Sub" if b.node and b.node.primitive.startswith("Sub") else "Add"
    scaled = other if number(alpha, "alpha") == 1 else arithmetic(b, "Mul", other, alpha)
    return arithmetic(b, op_type, input, scaled)


@lowers("AddN", "AccumulateNV2")
def add_n(b: Builder, x: Value) -> Value:
    """The sum of a tuple of tensors."""
    total = x[0]
    for item in x[1:]:
        total = arithmetic(b, "Add", total, item)
    return total


@lowers("Addcmul", "Addcdiv", "AddcmulExt", "AddcdivExt")
def addcmul(b: Builder, input: Value, tensor1: Value, tensor2: Value, value: Value = 1.0) -> Value:
    """input + value * tensor1 * tensor2, or divided by tensor2."""
    op_type = "Div" if b.node and b.node.primitive.startswith("Addcdiv") else "Mul"
    return arithmetic(b, "Add", input, arithmetic(b, op_type, arithmetic(b, "Mul", tensor1, value), tensor2))


@lowers("Lerp", "LerpScalar")
def lerp(b: Builder, input: Value, end: Value, weight: Value) -> Value:
    """input + weight * (end - input)."""
    return arithmetic(b, "Add", input, arithmetic(b, "Mul", arithmetic(b, "Sub", end, input), weight))


@lowers("SquaredDifference")
def squared_difference(b: Builder, x: Value, y: Value) -> Value:
    """(x - y) squared."""
    difference = arithmetic(b, "Sub", x, y)
    return b.op("Mul", difference, difference)


@lowers("Round")
def round_half_even(b: Builder, input: Value, decimals: Value = 0) -> Value:
    """input rounded to so many decimals, halves to even."""
    x, places = b.tensor(input), integer(decimals, "decimals")
    if not is_float(x.dtype):
        return x
    scale = 10.0 ** places
    return b.op("Round", x) if not places else b.op("Div", b.op("Round", b.op("Mul", x, scale)), scale)


@lowers("Expm1")
def expm1(b: Builder, input: Value) -> Value:
    """exp(input) - 1."""
    return b.op("Sub", b.op("Exp", floating(b, input)), 1.0)


@lowers("Log1p", "Log2", "Log10")
def log1p(b: Builder, input: Value) -> Value:
    """log(1 + input), or the logarithm to the base 2 or 10."""
    primitive, x = b.node.primitive if b.node else "", floating(b, input)
    if primitive == "Log1p":
        return b.op("Log", b.op("Add", x, 1.0))
    return b.op("Div", b.op("Log", x), math.log(2 if primitive == "Log2" else 10))


@lowers("Exp2")
def exp2(b: Builder, input: Value) -> Value:
    """2 to the power of input."""
    return b.op("Exp", b.op("Mul", floating(b, input), math.log(2)))


@lowers("Erfc")
def erfc(b: Builder, input: Value) -> Value:
    """1 - erf(input)."""
    x = floating(b, input)
    return b.op("Sub", b.tensor(1.0, x.dtype), b.op("Erf", x))


@lowers("ClampScalar", "ClampTensor", "ClampMin")
def clamp(b: Builder, input: Value, min: Value = None, max: Value = None) -> Value:
    """input held between two bounds, each optional."""
    dtype = result_dtype(b, input)
    x = as_dtype(b, input, dtype)
    if min is not None:
        x = arithmetic(b, "Max", x, min, dtype=dtype)
    return x if max is None else arithmetic(b, "Min", x, max, dtype=dtype)


@lowers("TypeAs")
def type_as(b: Builder, input: Value, other: Value) -> Value:
    """input in the dtype of other."""
    return as_dtype(b, input, b.tensor(other).dtype)


@lowers("Cast")
def cast(b: Builder, x: Value, dtype: Value = None, *, dst_type: Value = None, DstT: Value = None) -> Value:
    """x in the dtype given by a type id, or by the attribute of an old file."""
    wanted: Any = dtype_of(next((d for d in (dtype, dst_type, DstT) if d is not None), None), result_dtype(b, x))
    return as_dtype(b, x, wanted) if not is_number(x) else np.asarray(x, wanted)
