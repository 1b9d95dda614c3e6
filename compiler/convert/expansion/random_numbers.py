"""Random choices: those of ONNX, made of uniform random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("Bernoulli")
def bernoulli(e: Expander, x: ir.Value, *, dtype: int = 0, seed: float | None = None) -> ir.Value:
    """1 with the probability x, else 0."""
    kind = ir.DataType(dtype).numpy() if dtype else e.dtype(x)
    return e.cast(e.op("Less", e.op("RandomUniformLike", x, **_seeded(seed)), x), kind)


@expands("Multinomial")
def multinomial(
    e: Expander,
    x: ir.Value,
    *,
    dtype: int = ir.DataType.INT32,
    sample_size: int = 1,
    seed: float | None = None,
) -> ir.Value:
    """[batch, samples]: classes, whose logarithmic probabilities x has.

    A class is the place of the largest of all x with numbers of Gumbel's distribution added.
    """
    size = e.constant([1, sample_size, 1])
    wide = e.op("Expand", e.op("Unsqueeze", x, e.constant([1])), size)
    least = float(np.finfo(np.float32).tiny)
    drawn = e.op("RandomUniformLike", wide, low=least, high=1.0, **_seeded(seed))
    gumbel = e.op("Neg", e.op("Log", e.op("Neg", e.op("Log", drawn))))
    chosen = e.op("ArgMax", e.op("Add", wide, gumbel), axis=2, keepdims=0)
    return e.cast(chosen, ir.DataType(dtype).numpy())


def _seeded(seed: float | None) -> dict[str, Any]:
    return {} if seed is None else {"seed": seed}
