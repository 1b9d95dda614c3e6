"""Element types: those of MindIR, numpy and ONNX in one table."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

BOOL = np.dtype(np.bool_)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)


class ElementType(NamedTuple):
    """One element type under its four names."""

    name: str
    mindir: int  # data_type of a MindIR tensor, type of a scalar attribute
    type_id: int  # MindSpore's own id, as dtype arguments of primitives carry it
    onnx: int
    numpy: np.dtype[np.generic]


def _row(name: str, mindir: int, type_id: int, onnx: int, numpy: object) -> ElementType:
    return ElementType(name, mindir, type_id, onnx, np.dtype(numpy))  # type: ignore[call-overload]


ELEMENT_TYPES: tuple[ElementType, ...] = (
    _row("float32", 1, 43, TensorProto.FLOAT, np.float32),
    _row("uint8", 2, 37, TensorProto.UINT8, np.uint8),
    _row("int8", 3, 32, TensorProto.INT8, np.int8),
    _row("uint16", 4, 38, TensorProto.UINT16, np.uint16),
    _row("int16", 5, 33, TensorProto.INT16, np.int16),
    _row("int32", 6, 34, TensorProto.INT32, np.int32),
    _row("int64", 7, 35, TensorProto.INT64, np.int64),
    _row("bool", 9, 30, TensorProto.BOOL, np.bool_),
    _row("float16", 10, 42, TensorProto.FLOAT16, np.float16),
    _row("float64", 11, 44, TensorProto.DOUBLE, np.float64),
    _row("uint32", 12, 39, TensorProto.UINT32, np.uint32),
    _row("uint64", 13, 40, TensorProto.UINT64, np.uint64),
    _row("complex64", 14, 51, TensorProto.COMPLEX64, np.complex64),
    _row("complex128", 15, 52, TensorProto.COMPLEX128, np.complex128),
    _row("bfloat16", 16, 45, TensorProto.BFLOAT16, ml_dtypes.bfloat16),
)
_BY_MINDIR = {row.mindir: row for row in ELEMENT_TYPES} | {17: ELEMENT_TYPES[9]}
_BY_TYPE_ID = {row.type_id: row for row in ELEMENT_TYPES}
_BY_ONNX = {row.onnx: row for row in ELEMENT_TYPES}
_BY_NUMPY = {row.numpy: row for row in ELEMENT_TYPES}


def is_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether a dtype is of real floats; to numpy itself, bfloat16 is not."""
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def limits(dtype: np.dtype[np.generic]) -> tuple[float, float]:
    """The smallest and the largest finite value of a dtype of numbers; integers are exact."""
    ends: Any = ml_dtypes.finfo(dtype) if is_float(dtype) else np.iinfo(dtype)  # type: ignore
    return (float(ends.min), float(ends.max)) if is_float(dtype) else (int(ends.min), int(ends.max))


def from_mindir(code: int) -> np.dtype[np.generic]:
    """The numpy dtype of a MindIR data_type code; ValueError names an unknown one."""
    if code not in _BY_MINDIR:
        raise ValueError(f"data type code {code} is not one that MindIR tensors have")
    return _BY_MINDIR[code].numpy


def from_type_id(type_id: int) -> np.dtype[np.generic]:
    """The numpy dtype of a MindSpore type id, as `Cast` and its like carry it."""
    if type_id not in _BY_TYPE_ID:
        raise ValueError(f"type id {type_id} is not a MindSpore tensor type")
    return _BY_TYPE_ID[type_id].numpy


def from_onnx(elem_type: int) -> np.dtype[np.generic]:
    """The numpy dtype of an ONNX element type."""
    if elem_type not in _BY_ONNX:
        raise ValueError(f"ONNX element type {elem_type} is not supported")
    return _BY_ONNX[elem_type].numpy


def to_onnx(dtype: np.dtype[np.generic]) -> int:
    """The ONNX element type of a numpy dtype."""
    if dtype not in _BY_NUMPY:
        raise ValueError(f"dtype {dtype} has no ONNX element type")
    return _BY_NUMPY[dtype].onnx


def to_mindir(dtype: np.dtype[np.generic]) -> int:
    """The MindIR data_type code of a numpy dtype."""
    return _BY_NUMPY[dtype].mindir


def to_type_id(dtype: np.dtype[np.generic]) -> int:
    """MindSpore's own id of a numpy dtype."""
    return _BY_NUMPY[dtype].type_id
