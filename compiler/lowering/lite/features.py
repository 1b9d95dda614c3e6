"""Features in .ms files: numbers that words were hashed to, as TensorFlow Lite's models of texts
have them.
"""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import INT32, INT64, Builder, OnnxTensor, Value, lowers, where

_UINT64, _DOUBLE, _SINGLE = np.dtype(np.uint64), np.dtype(np.float64), np.dtype(np.float32)
_K2 = 0x9AE16A3B2F90404F
"""A number of FarmHash."""


@lowers("Lite.CustomPredict")
def predicted(
    b: Builder,
    features: Value,
    keys: Value,
    labels: Value,
    weights: Value,
    *,
    output_num: int,
    weight_threshold: float,
) -> Value:
    """(the labels with the largest weights, their weights); -1 and 0 below the threshold.

    Each feature that is a key, all of them different, adds its row of weights to its row of
    labels, divided by the number of features.
    """
    asked = b.op("Reshape", b.tensor(features), (-1, 1))
    found = b.cast(b.op("Equal", asked, b.op("Reshape", b.tensor(keys), (1, -1))), _SINGLE)
    counts = b.op("Reshape", b.op("ReduceSum", found, (0,), keepdims=0), (-1, 1))
    size = b.cast(b.op("Size", asked), _SINGLE)
    points = b.op("Div", b.op("Mul", b.tensor(weights), counts), size)
    hits = b.op("Expand", counts, b.op("Shape", b.tensor(labels)))
    listed = b.op("Reshape", b.tensor(labels), (-1,))
    kinds = [TensorType(listed.dtype, None), *[TensorType(INT64, None)] * 2]
    names, _, places = b.ops("Unique", listed, outputs=3, types=kinds)
    totals, seen = (_added(b, names, places, one) for one in (points, hits))
    totals = where(b, b.op("Greater", seen, 0.0), totals, -np.inf, _SINGLE)
    spare = np.full(output_num, -np.inf, np.float32)
    every = b.op("Concat", totals, spare, axis=0)
    kinds = [TensorType(every.dtype, None), TensorType(INT64, None)]
    best, at = b.ops("TopK", every, (output_num,), outputs=2, types=kinds)
    enough = b.op("GreaterOrEqual", best, weight_threshold)
    named = b.op("Concat", names, np.full(output_num, -1, names.dtype), axis=0)
    chosen = where(b, enough, b.op("Gather", named, at), -1, names.dtype)
    return chosen, where(b, enough, best, 0.0, _SINGLE)


def _added(b: Builder, names: OnnxTensor, places: OnnxTensor, values: OnnxTensor) -> OnnxTensor:
    """The sum of the values of each name."""
    nothing = b.op("Expand", np.zeros((), np.float32), b.op("Shape", names))
    flat = b.op("Reshape", values, (-1,))
    return b.op("ScatterElements", nothing, places, flat, axis=0, reduction="add")


@lowers("Lite.LshProjection")
def lsh_projection(
    b: Builder, seeds: Value, features: Value, weights: Value = None, *, type: str
) -> Value:
    """Bits of features: for each seed, whether their hashes with it have a positive sum, weighted.

    DENSE gives every bit. SPARSE gives, for each row of seeds, the number that its bits make, and
    the numbers of a row begin behind those of the row before.
    """
    if not isinstance(seeds, np.ndarray) or seeds.ndim != 2:
        raise ValueError("the seeds of LshProjection must be a constant matrix")
    x = b.tensor(features)
    if x.rank != 1:
        raise ValueError(f"LshProjection of {x.rank} dimensions is not supported, expected one")
    rows, columns = seeds.shape
    low = seeds.astype(np.float32).view(np.uint32).astype(np.int64).reshape(-1, 1)
    keys = b.op("Add", b.op("Mul", b.cast(x, INT64), 1 << 32), low)
    scores = b.cast(_hashed(b, keys), _DOUBLE)
    if weights is not None:
        scores = b.op("Mul", scores, b.cast(b.tensor(weights), _DOUBLE))
    bits = b.cast(b.op("Greater", b.op("ReduceSum", scores, (1,), keepdims=0), 0.0), INT32)
    if type == "DENSE":
        return bits
    powers = (1 << np.arange(columns)[::-1]).astype(np.int32)
    marked = b.op("Mul", b.op("Reshape", bits, (rows, columns)), powers)
    first = (np.arange(rows) << columns).astype(np.int32)
    return b.op("Add", b.op("ReduceSum", marked, (1,), keepdims=0), first)


def _hashed(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """FarmHash's Fingerprint64 of the eight bytes of each integer."""
    factor = _signed(_K2 + 16)
    first = b.op("Add", x, _signed(_K2))
    c = b.op("Add", b.op("Mul", _rotated(b, x, 37), factor), first)
    d = b.op("Mul", b.op("Add", _rotated(b, first, 25), x), factor)
    one = _mixed(b, b.op("Mul", _xor(b, c, d), factor))
    return b.op("Mul", _mixed(b, b.op("Mul", _xor(b, d, one), factor)), factor)


def _signed(number: int) -> int:
    """The int64 of the same bits."""
    return number - (1 << 64)


def _xor(b: Builder, x: OnnxTensor, y: OnnxTensor) -> OnnxTensor:
    return b.op("BitwiseXor", x, y)


def _shifted(b: Builder, x: OnnxTensor, places: int, direction: str) -> OnnxTensor:
    """The bits of x moved; zeros come in."""
    moved = b.op("BitShift", b.cast(x, _UINT64), np.asarray(places, np.uint64), direction=direction)
    return b.cast(moved, INT64)


def _rotated(b: Builder, x: OnnxTensor, places: int) -> OnnxTensor:
    low = _shifted(b, x, places, "RIGHT")
    return b.op("BitwiseOr", low, _shifted(b, x, 64 - places, "LEFT"))


def _mixed(b: Builder, x: OnnxTensor) -> OnnxTensor:
    return _xor(b, x, _shifted(b, x, 47, "RIGHT"))
