"""Random numbers: those of ONNX, drawn anew at each run.

With a seed they repeat, and are other ones than onnxruntime's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType, TupleType
from ..mindir.values import MindirValue, scalar_type
from .node_conversion import NodeConversion
from .registry import converts


@converts("RandomUniform", "RandomUniformLike")
def uniform(
    c: NodeConversion,
    *like: MindirValue,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: object = None,
    dtype: int = 0,
) -> MindirValue:
    """Numbers from `low` up to before `high`."""
    return _scaled(c, drawn(c, "UniformReal", *like, seed=seed), high - low, low)


@converts("RandomNormal", "RandomNormalLike")
def normal(
    c: NodeConversion,
    *like: MindirValue,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: object = None,
    dtype: int = 0,
) -> MindirValue:
    """Numbers of a mean and a deviation."""
    return _scaled(c, drawn(c, "StandardNormal", *like, seed=seed), scale, mean)


@converts("Dropout")
def dropout(
    c: NodeConversion,
    x: MindirValue,
    part: MindirValue | None = None,
    training: MindirValue | None = None,
    *,
    ratio: float = 0.5,
    seed: float | None = None,
) -> Sequence[MindirValue]:
    """(x without a random part of its elements, the others larger to match; what is left). Unless
    it is in training, it leaves x as it is.
    """
    share = ratio if part is None else _constant(part, "the part that is dropped")
    if training is None or not _constant(training, "training_mode") or not share:
        every = [] if c.open_sizes else [c.builder.constant(np.ones(c.shape, np.bool_))]
        return [x, *every]
    numbers = drawn(c, "UniformReal", x, seed=seed)
    kind = TensorType(dtypes.BOOL, c.shape)
    kept = c.apply("GreaterEqual", numbers, np.asarray(share, np.float32), type=kind)
    larger = c.apply("Mul", x, np.asarray(1 / (1 - share), x.dtype))
    return [c.apply("Mul", larger, c.apply("Cast", kept, dtypes.to_type_id(x.dtype))), kept]


def _constant(value: MindirValue, what: str) -> float:
    if value.constant is None:
        raise ValueError(f"{what} is computed by the model, and has to be constant")
    return float(np.asarray(value.constant).reshape(-1)[0])


def drawn(c: NodeConversion, primitive: str, *like: MindirValue, seed: float | None) -> MindirValue:
    """Random numbers of float32 in the shape of the first output, which is that of `like`."""
    sizes: MindirValue | tuple[int, ...] = c.shape
    if c.open_sizes:
        sizes = c.apply("Shape", like[0], type=TupleType((scalar_type(),) * c.rank))
    given = 0 if seed is None else int(np.float32(seed).view(np.uint32)) or 1
    kind = TensorType(dtypes.FLOAT32, c.shape)
    return c.apply(primitive, sizes, type=kind, seed=given, seed2=0, side_effect_hidden=True)


def _scaled(c: NodeConversion, x: MindirValue, factor: float, offset: float) -> MindirValue:
    """factor x + offset, in the dtype of the result."""
    kind = TensorType(dtypes.FLOAT32, c.shape)
    for primitive, number, neutral in (("Mul", factor, 1.0), ("Add", offset, 0.0)):
        if number != neutral:
            x = c.apply(primitive, x, np.asarray(number, np.float32), type=kind)
    same = c.type.dtype == dtypes.FLOAT32
    return x if same else c.apply("Cast", x, dtypes.to_type_id(c.type.dtype))
