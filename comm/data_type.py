"""The element types and memory layouts that a Tensor may say it has, by their public names and numbers."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np


class DataType(Enum):
    """The type of a tensor's elements."""

    UNKNOWN = 0
    BOOL = 30
    INT8 = 32
    INT16 = 33
    INT32 = 34
    INT64 = 35
    UINT8 = 37
    UINT16 = 38
    UINT32 = 39
    UINT64 = 40
    FLOAT16 = 42
    FLOAT32 = 43
    FLOAT64 = 44
    INVALID = 2147483647


class Format(Enum):
    """The order of a tensor's axes; a label only, no data is moved."""

    DEFAULT = -1
    NCHW = 0
    NHWC = 1
    NHWC4 = 2
    HWKC = 3
    HWCK = 4
    KCHW = 5
    CKHW = 6
    KHWC = 7
    CHWK = 8
    HW = 9
    HW4 = 10
    NC = 11
    NC4 = 12
    NC4HW4 = 13
    NCDHW = 15
    NWC = 16
    NCW = 17
    NDHWC = 18
    NC8HW8 = 19


_NUMPY: dict[DataType, np.dtype[Any]] = {
    DataType.BOOL: np.dtype(np.bool_),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.FLOAT32: np.dtype(np.float32),
    DataType.FLOAT64: np.dtype(np.float64),
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _NUMPY.items()}


def to_numpy(data_type: DataType) -> np.dtype[Any] | None:
    """The numpy dtype of a DataType; None for UNKNOWN and INVALID."""
    return _NUMPY.get(data_type)


def from_numpy(dtype: np.dtype[Any]) -> DataType | None:
    """The DataType of a numpy dtype; None where there is no such (bfloat16, complex, text)."""
    return _DATA_TYPES.get(dtype)
