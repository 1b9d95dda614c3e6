"""Datatypes of the Open Inference Protocol: their names, and the numpy dtypes they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from ...comm.serving.string_tensor import decode_elements, encode_elements, encoded_size
from ...comm.serving.tensor_spec import STRINGS, dtype_named

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
    BYTES: STRINGS,
}
_DATATYPES = {
    "object" if name == STRINGS else name: datatype for datatype, name in _NUMPY_NAMES.items()
}


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
    """The elements of any array as bytes to be sent: few are copied, which takes less time. Strings
    are as the protocol lays them out.
    """
    if array.dtype.hasobject:
        return encode_elements(array.reshape(-1).tolist())
    if array.nbytes <= _COPIED:
        return array.tobytes()
    return bytes_of(np.ascontiguousarray(array))


def sent_size(array: Array) -> int:
    """How many bytes `sent_elements` gives."""
    return encoded_size(array) if array.dtype.hasobject else array.nbytes


def strings_in(data: memoryview | bytes, name: str, shape: tuple[int, ...]) -> Array:
    """The BYTES input `name` of this shape that a client sent in binary; InputError where the data
    are not its elements.
    """
    try:
        return decode_elements(data, shape)
    except ValueError as error:
        raise InputError(
            f"the input '{name}' of BYTES and the shape {list(shape)} {error}: send for each "
            "element its length in 4 bytes, and its bytes."
        ) from None
