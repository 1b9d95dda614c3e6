"""Mixed dtypes: the dtype in which values meet, and operators on values in that dtype."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import BOOL, FLOAT32, INT32, INT64, is_float
from ...element_types.value_types import ScalarType, TensorType
from .arguments import is_number
from .builder import Builder, OnnxTensor, Value

_SELECTED: dict[str, np.dtype[np.generic]] = {
    **dict.fromkeys(("bool", "int8", "int16", "uint16"), INT32),
    **dict.fromkeys(("uint32", "uint64"), INT64),
    "bfloat16": FLOAT32,
}
"""The dtypes that onnxruntime's Where lacks, and what holds all of their values."""


def common_dtype(*values: Value) -> np.dtype[np.generic]:
    """The dtype in which values meet: the tensors', float32 where integers meet a float number."""
    dtypes = [value.dtype for value in values if isinstance(value, (OnnxTensor, np.ndarray))]
    has_float = any(isinstance(value, float) for value in values)
    if not dtypes:
        return FLOAT32 if has_float else INT64
    dtype = _promoted(dtypes)
    if dtype.kind in "iub" and has_float:
        return FLOAT32
    return INT64 if dtype.kind == "b" and any(type(value) is int for value in values) else dtype


def _promoted(dtypes: list[np.dtype[np.generic]]) -> np.dtype[np.generic]:
    """The common dtype, that of the floats if there are any.

    numpy has no common dtype of bfloat16 and float16, or of bfloat16 and integers.
    """
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    if len({dtype for dtype in floats if dtype.itemsize == 2}) == 2:
        floats = [*(dtype for dtype in floats if dtype.itemsize > 2), FLOAT32]
    return np.result_type(*(floats or dtypes))


def result_dtype(b: Builder, *values: Value) -> np.dtype[np.generic]:
    """The dtype that MindSpore recorded for the node's result, else the values' common one."""
    kind = b.result_type
    return kind.dtype if isinstance(kind, (TensorType, ScalarType)) else common_dtype(*values)


def as_dtype(b: Builder, value: Value, dtype: np.dtype[np.generic]) -> OnnxTensor:
    """A value as a tensor of `dtype`; constants are converted, not cast at run time."""
    if is_number(value):
        return b.tensor(value, dtype)
    if isinstance(value, np.ndarray) and value.dtype != dtype:
        return b.tensor(value.astype(dtype))
    return b.cast(value, dtype)


def operands(b: Builder, *values: Value) -> tuple[OnnxTensor, ...]:
    """Values as tensors of the node's result dtype."""
    dtype = result_dtype(b, *values)
    return tuple(as_dtype(b, value, dtype) for value in values)


def arithmetic(
    b: Builder, op_type: str, *values: Value, dtype: np.dtype[np.generic] | None = None
) -> OnnxTensor:
    """An ONNX operator on values brought to one dtype, by default the recorded one."""
    dtype = dtype or result_dtype(b, *values)
    tensors = [as_dtype(b, value, dtype) for value in values]
    if op_type in ("Max", "Min") and len(values) == 2 and has_wrong_extremes(dtype):
        x, y = tensors
        return where(b, b.op("Greater" if op_type == "Max" else "Less", x, y), x, y, dtype)
    return b.op(op_type, *tensors)


def has_wrong_extremes(dtype: np.dtype[np.generic]) -> bool:
    """Whether onnxruntime's Max, Min, ReduceMax and ReduceMin get integers of a dtype wrong.

    Of int64 beyond 32 bits they compare the lower halves as signed numbers: the smaller of 5 and
    3e9 is 3e9 to them. Its comparisons, ArgMax and ArgMin are right.
    """
    return dtype in (np.int64, np.uint32, np.uint64)


def where(
    b: Builder, condition: Value, yes: Value, no: Value, dtype: np.dtype[np.generic]
) -> OnnxTensor:
    """yes where the condition holds, else no, both in `dtype`, which Where itself may lack."""
    small = _SELECTED.get(dtype.name, dtype)
    values = as_dtype(b, condition, BOOL), as_dtype(b, yes, small), as_dtype(b, no, small)
    return b.cast(b.op("Where", *values, type=TensorType(small, None)), dtype)


def floating(b: Builder, x: Value) -> OnnxTensor:
    """x; integers, which float functions do not take, in the recorded dtype, else in float32."""
    tensor = b.tensor(x)
    if tensor.dtype.kind not in "iub":
        return tensor
    wanted = result_dtype(b, tensor)
    return b.cast(tensor, wanted if is_float(wanted) else FLOAT32)
