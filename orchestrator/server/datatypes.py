"""Datatypes of the Open Inference Protocol: their names, and the numpy dtypes they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Any

import numpy as np

from ...comm.arrays import Array
from ...comm.serving.tensor_spec import dtype_named

BYTES = "BYTES"
"""The datatype of elements that are texts or other sequences of bytes."""

_COPIED = 1 << 14
"""Bytes of an array that are copied sooner than they are sent from where they lie."""

_NUMPY_NAMES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
    BYTES: "object",
}
_DATATYPES = {name: datatype for datatype, name in _NUMPY_NAMES.items()}


def datatype_of(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a dtype; numpy's own name, in capitals, where it has none."""
    return _DATATYPES.get(dtype.name, dtype.name.upper())


def dtype_of(datatype: str) -> np.dtype[Any] | None:
    """The dtype of one of the protocol's datatypes; None for another word."""
    name = _NUMPY_NAMES.get(datatype)
    return None if name is None else dtype_named(name)


def bytes_of(array: Array) -> memoryview:
    """The elements of a contiguous array as bytes, in place."""
    return array.reshape(-1).view(np.uint8).data


def sent_elements(array: Array) -> bytes | memoryview:
    """The elements of any array as bytes to be sent: few are copied, which takes less time."""
    if array.nbytes <= _COPIED:
        return array.tobytes()
    return bytes_of(np.ascontiguousarray(array))


def encode_bytes(elements: Iterable[bytes]) -> bytes:
    """Elements of BYTES as the protocol lays them out: a length of 4 bytes before each."""
    return b"".join(pack("<I", len(element)) + element for element in elements)
