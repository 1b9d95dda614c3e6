"""Tensor descriptions: data types, formats, and the meta data of outputs before a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """The order of a tensor's axes; a label only: no data is moved."""

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
    """The DataType of a numpy dtype; None for one without (bfloat16, complex, text)."""
    return _DATA_TYPES.get(dtype)


FLOAT32 = np.dtype(np.float32)


class TensorMeta:
    """Description of an output before there is any data."""

    def __init__(self) -> None:
        self.name = ""
        self.dtype: DataType | None = DataType.UNKNOWN
        self.shape: list[int] = []
        self.format = Format.DEFAULT
        self.element_num = 0
        self.data_size = 0

    def __str__(self) -> str:
        return describe(
            self.name, self.dtype, self.shape, self.format, self.element_num, self.data_size
        )


def describe(
    name: str,
    dtype: DataType | None,
    shape: list[int],
    order: Format,
    element_num: int,
    data_size: int,
) -> str:
    """The text of a tensor or its description, one line per attribute."""
    return (
        f"name: {name},\ndtype: {dtype},\nshape: {shape},\nformat: {order},\n"
        f"element_num: {element_num},\ndata_size: {data_size}."
    )


@dataclass(slots=True)
class TensorSlot:
    """Name, type and shape of a tensor; all tensors of one input of a model share that input's."""

    name: str = ""
    dtype: np.dtype[Any] | None = FLOAT32
    data_type: DataType | None = DataType.FLOAT32
    shape: list[int] = field(default_factory=list)
    format: Format = Format.NCHW

    @classmethod
    def of(cls, name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> TensorSlot:
        """The slot of a numpy dtype, which may be one that DataType does not name."""
        return cls(name, dtype, from_numpy(dtype), list(shape))
