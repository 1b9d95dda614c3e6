"""Kernels of onnxruntime on CPUs: the dtypes that each lacks, and those used instead."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

from ...element_types.dtypes import FLOAT32, FLOAT64, INT32, INT64

# float16 is not listed: onnxruntime itself puts casts around kernels without it.
_NO_FLOAT64 = frozenset(
    (
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "AveragePool",
        "Celu",
        "Col2Im",
        "Conv",
        "ConvTranspose",
        "Cosh",
        "Elu",
        "Erf",
        "Gelu",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "HardSigmoid",
        "HardSwish",
        "InstanceNormalization",
        "LRN",
        "LSTM",
        "LeakyRelu",
        "Mish",
        "PRelu",
        "Resize",
        "Selu",
        "Sinh",
        "Softplus",
        "Softsign",
        "Tan",
    )
)
_ANY_TYPE = frozenset(
    (
        "BitShift",
        "Cast",
        "Concat",
        "DequantizeLinear",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "QuantizeLinear",
        "Reshape",
        "ReverseSequence",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Size",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
        "Where",
    )
)
# The float functions that MindSpore has for integers too: the result is that of floats, cut.
_ONLY_FLOAT = frozenset(("HardSigmoid", "HardSwish"))
_ANY_BUT_BFLOAT16 = frozenset(("Compress", "Expand", "Tile"))
_BOOLEAN = frozenset(("And", "Not", "Or", "Xor", "Equal", "If", "Loop"))


@lru_cache(maxsize=1024)
def compute_dtype(op_type: str, dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in which to run an operator on `dtype`: the same where a kernel has it."""
    if op_type in _ANY_TYPE or (dtype == np.bool_ and op_type in _BOOLEAN):
        return dtype
    if dtype == ml_dtypes.bfloat16:
        return FLOAT32
    if op_type in _ANY_BUT_BFLOAT16:
        return dtype
    if op_type == "MaxPool" and dtype.kind in "iu":
        return FLOAT64  # exact up to 2**53
    if op_type == "Unique":
        return (
            dtype
            if dtype in (np.float32, np.float64, np.int8, np.int64)
            else np.dtype(np.float32 if dtype == np.float16 else np.int64)
        )
    if op_type in _ONLY_FLOAT and dtype.kind in "iu":
        return FLOAT32
    if dtype == np.float64:
        return FLOAT32 if op_type in _NO_FLOAT64 else dtype
    if dtype == np.bool_ or (dtype.kind in "iu" and dtype.itemsize < 4):
        return dtype if op_type.startswith("Bitwise") else INT32
    if dtype.kind == "u":
        return dtype if op_type.startswith("Bitwise") else INT64
    return dtype
