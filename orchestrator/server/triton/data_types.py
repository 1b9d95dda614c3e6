"""Data types of configurations: give the dtypes that Triton's names stand for."""

from __future__ import annotations

from ....comm.serving.tensor_spec import STRINGS
from ..grpc.protocol.model_config import DataType

_DTYPES = {
    "TYPE_BOOL": "bool",
    "TYPE_UINT8": "uint8",
    "TYPE_UINT16": "uint16",
    "TYPE_UINT32": "uint32",
    "TYPE_UINT64": "uint64",
    "TYPE_INT8": "int8",
    "TYPE_INT16": "int16",
    "TYPE_INT32": "int32",
    "TYPE_INT64": "int64",
    "TYPE_FP16": "float16",
    "TYPE_BF16": "bfloat16",
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_STRING": STRINGS,
}


def dtype_named_by(data_type: DataType) -> str | None:
    """The dtype of a `data_type` as TensorSpec has it; None for TYPE_INVALID."""
    return _DTYPES.get(DataType.Name(data_type))
