"""Random numbers: those of ONNX, in a shape that is an input; a seed of 0 is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..builder import INT64, Builder, OnnxTensor, Value, lowers


@lowers("StandardNormal")
def standard_normal(b: Builder, shape: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    """Numbers of mean 0 and deviation 1."""
    return drawn(b, "RandomNormalLike", b.tensor(shape), seed or seed2)


@lowers("UniformReal")
def uniform(b: Builder, shape: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    """Numbers from 0 up to before 1."""
    return drawn(b, "RandomUniformLike", b.tensor(shape), seed or seed2)


def drawn(b: Builder, operator: str, shape: OnnxTensor, seed: float, **others: Any) -> OnnxTensor:
    """Numbers of float32 that one of ONNX's operators draws."""
    if seed:
        others["seed"] = float(seed)
    return b.op(operator, b.op("Expand", np.zeros((), np.float32), b.cast(shape, INT64)), **others)
