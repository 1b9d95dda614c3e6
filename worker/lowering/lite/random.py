"""Random numbers in .ms files: those of ONNX, in a shape that is an input; a seed of 0 is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..builder import INT64, Builder, OnnxTensor, Value, lowers
from .shape import numbers


@lowers("Lite.RandomStandardNormal")
def standard_normal(b: Builder, shape: Value, *, seed: int, seed2: int) -> Value:
    """Numbers of mean 0 and deviation 1."""
    return _like(b, "RandomNormalLike", shape, seed or seed2)


@lowers("Lite.RandomNormal")
def normal(b: Builder, shape: Value, *, seed: float, mean: float, scale: float) -> Value:
    """Numbers of a mean and a deviation."""
    return _like(b, "RandomNormalLike", shape, seed, mean=mean, scale=scale)


@lowers("Lite.UniformReal")
def uniform(b: Builder, shape: Value, *, seed: int, seed2: int) -> Value:
    """Numbers from 0 up to before 1."""
    return _like(b, "RandomUniformLike", shape, seed or seed2)


def _like(b: Builder, operator: str, shape: Value, seed: float, **others: Any) -> OnnxTensor:
    sizes = b.cast(b.tensor(numbers(shape, "the shape")), INT64)
    if seed:
        others["seed"] = float(seed)
    return b.op(operator, b.op("Expand", np.zeros((), np.float32), sizes), **others)
