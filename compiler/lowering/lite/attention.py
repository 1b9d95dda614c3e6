"""Attention in .ms files: that of several heads, with the projections before it and behind it."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder, OnnxTensor, Value, lowers
from .results import kept

_LOW = -10000.0
"""Added to the scores of pairs that a mask leaves out."""


@lowers("Lite.Attention")
def attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    *more: Value,
    head_num: int,
    head_size: int,
    cross: bool,
    scale: float,
) -> Value:
    """(attention, keys [batch, heads, size, length], values [batch, heads, length, size]).

    ONNX's MatMul and Softmax, as MindSpore Lite's MultiHeadAttentionFusion finds them: softmax of
    queries times keys times the scale, times values. A mask [batch, queries, keys] has ones for
    pairs that count. Inputs are [batch, length, width], or [length, width] of one sequence.
    """
    if min(head_num, head_size) < 1:
        raise ValueError(f"attention has {head_num} heads of {head_size} numbers, expected some")
    weights, biases, mask = _projections(b, [b.tensor(one) for one in more], cross)
    taken = [b.tensor(one) for one in (query, key, value)]
    flat = taken[0].rank == 2
    rows = [b.op("Unsqueeze", one, (0,)) if flat else one for one in taken]
    q, k, v = (
        _heads(b, _projected(b, *one), head_num, head_size)
        for one in zip(rows, weights[:3], biases[:3], strict=True)
    )
    keys = b.op("Transpose", k, perm=[0, 1, 3, 2])
    scores = b.op("Mul", b.op("MatMul", q, keys), scale or head_size**-0.5)
    for one in mask:
        left_out = b.op("Mul", b.op("Sub", 1.0, b.op("Unsqueeze", one, (1,))), _LOW)
        scores = b.op("Add", scores, left_out)
    y = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = b.op("Reshape", y, (0, 0, head_num * head_size))
    y = _projected(b, y, weights[3], biases[3])
    return kept(b, (b.op("Squeeze", y, (0,)) if flat else y, keys, v))


def _projections(
    b: Builder, given: Sequence[OnnxTensor], cross: bool
) -> tuple[Sequence[OnnxTensor], Sequence[OnnxTensor], Sequence[OnnxTensor]]:
    """(four weights [in, out], four biases, the mask or none), of queries, keys, values and the
    result: one by one, or those of keys and values joined, without `cross` also those of queries.
    """
    if len(given) in (8, 9):
        return given[:4], given[4:8], given[8:]
    count = 5 if cross else 4
    if len(given) not in (count, count + 1):
        raise ValueError(f"attention has {len(given)} inputs behind queries, keys and values")
    *own, joined, out, bias, bias_out = given[:count]
    weights = b.ops("Split", joined, outputs=3 - len(own), axis=1, num_outputs=3 - len(own))
    biases = b.ops("Split", bias, outputs=3, axis=0, num_outputs=3)
    return [*own, *weights, out], [*biases, bias_out], given[count:]


def _projected(b: Builder, x: OnnxTensor, weight: OnnxTensor, bias: OnnxTensor) -> OnnxTensor:
    return b.op("Add", b.op("MatMul", x, weight), bias)


def _heads(b: Builder, x: OnnxTensor, count: int, size: int) -> OnnxTensor:
    """[batch, length, width] as [batch, heads, length, size]."""
    return b.op("Transpose", b.op("Reshape", x, (0, 0, count, size)), perm=[0, 2, 1, 3])
