"""Typed contents: tensors that stand in a message element by element."""

from __future__ import annotations

import numpy as np

from .....comm.arrays import Array
from .....comm.errors import InputError
from .....comm.serving.string_tensor import strings_of
from ...catalog import TensorDescription
from ...datatypes import BYTES
from ..protocol.inference import InferTensorContents

_FIELDS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
_PART = 1 << 14
_WIDE = {"int_contents": np.int32, "uint_contents": np.uint32}


def typed_array(
    tensor: TensorDescription, shape: tuple[int, ...], contents: InferTensorContents
) -> Array:
    """An input of this shape; InputError where its contents do not fill it."""
    field = _FIELDS.get(tensor.datatype)
    if field is None:
        raise InputError(
            f"the input '{tensor.name}' is {tensor.datatype}, which no typed contents hold: send "
            "it in raw_input_contents."
        )
    elements = getattr(contents, field)
    count = int(np.prod(shape, dtype=object))
    if len(elements) != count:
        raise InputError(
            f"the input '{tensor.name}' has {len(elements)} elements in `{field}`, expected "
            f"{count} for the shape {list(shape)}."
        )
    if tensor.strings:
        return strings_of(list(elements)).reshape(shape)
    wide: Array = np.empty(count, _WIDE.get(field, tensor.dtype))
    for at in range(0, count, _PART):  # so that other threads have a turn
        wide[at : at + _PART] = elements[at : at + _PART]
    return _narrowed(tensor, wide.reshape(shape))


def _narrowed(tensor: TensorDescription, wide: Array) -> Array:
    array = wide.astype(tensor.dtype, copy=False)
    if tensor.dtype.kind in "iu" and not np.array_equal(array, wide):
        worst = wide[array != wide][0]
        raise InputError(f"the input '{tensor.name}' has {worst}, expected {tensor.datatype}.")
    return array
