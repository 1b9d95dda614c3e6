"""Random numbers in .ms files: as those of MindIR; a seed of 0 is none."""

from __future__ import annotations

from ..builder import Builder, OnnxTensor, Value, lowers
from ..primitives.random import drawn
from .shape import numbers


@lowers("Lite.RandomStandardNormal")
def standard_normal(b: Builder, shape: Value, *, seed: int, seed2: int) -> Value:
    """Numbers of mean 0 and deviation 1."""
    return drawn(b, "RandomNormalLike", _sizes(b, shape), seed or seed2)


@lowers("Lite.RandomNormal")
def normal(b: Builder, shape: Value, *, seed: float, mean: float, scale: float) -> Value:
    """Numbers of a mean and a deviation."""
    return drawn(b, "RandomNormalLike", _sizes(b, shape), seed, mean=mean, scale=scale)


@lowers("Lite.UniformReal")
def uniform(b: Builder, shape: Value, *, seed: int, seed2: int) -> Value:
    """Numbers from 0 up to before 1."""
    return drawn(b, "RandomUniformLike", _sizes(b, shape), seed or seed2)


def _sizes(b: Builder, shape: Value) -> OnnxTensor:
    return b.tensor(numbers(shape, "the shape"))
