"""Which element types onnxruntime's CPU kernels lack, and the type to compute in instead."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

# float16 is not listed: onnxruntime itself puts casts around kernels without it.
_NO_FLOAT64 = frozenset((
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Celu", "Col2Im", "Conv", "ConvTranspose",
    "Cosh", "Elu", "Erf", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish",
    "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Mish", "PRelu", "Resize", "Selu", "Sinh", "Softplus",
    "Softsign", "Tan"))
_ANY_TYPE = frozenset((
    "Cast", "Concat", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape",
    "ReverseSequence", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze", "Where"))
# The float functions that MindSpore has for integers too: the result is that of floats, cut.
_ONLY_FLOAT = frozenset(("HardSigmoid", "HardSwish"))
_ANY_BUT_BFLOAT16 = frozenset(("Compress", "Expand", "Tile"))
_BOOLEAN = frozenset(("And", "Not", "Or", "Xor", "Equal", "If", "Loop"))
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


@lru_cache(maxsize=1024)
def compute_dtype(op_type: str, dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in which to run an operator on inputs of `dtype`: the same where a kernel has it."""
    if op_type in _ANY_TYPE or (dtype == np.bool_ and op_type in _BOOLEAN):
        return dtype
    if dtype == ml_dtypes.bfloat16:
        return np.dtype(np.float32)
    if op_type in _ANY_BUT_BFLOAT16:
        return dtype
    if op_type == "MaxPool" and dtype.kind in "iu":
        return np.dtype(np.float64)  # exact up to 2**53
    if op_type == "Unique":
        return dtype if dtype in (np.float32, np.float64, np.int8, np.int64) else np.dtype(
            np.float32 if dtype == np.float16 else np.int64)
    if op_type in _ONLY_FLOAT and dtype.kind in "iu":
        return np.dtype(np.float32)
    if dtype == np.float64:
        return np.dtype(np.float32) if op_type in _NO_FLOAT64 else dtype
    if dtype == np.bool_ or (dtype.kind in "iu" and dtype.itemsize < 4):
        return dtype if op_type.startswith("Bitwise") else _INT32
    if dtype.kind == "u":
        return dtype if op_type.startswith("Bitwise") else _INT64
    return dtype
