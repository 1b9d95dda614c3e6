"""Attention rules of onnxruntime's own operators: split by batch and by heads, which stay whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...source_graph.dims import Dims, fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split, Windows
from .registry import always, factors_of


def dims_of(node: OperatorNode, index: int) -> Dims | None:
    """The dimensions of an input; None where it is missing."""
    return node.inputs[index] if index < len(node.inputs) else None


def size_of(dims: Dims | None, axis: int) -> int:
    """The size of an axis; 0 where it is unknown, open or missing."""
    return 0 if dims is None else fixed(dims[axis]) or 0


def batch_factor(
    node: OperatorNode, inputs: Mapping[int, int], outputs: Mapping[int, int]
) -> Factor:
    """The factor of the batch: axes by position, of those operands that have it."""
    count = size_of(node.inputs[0], 0)
    found = {
        index: Axis(axis)
        for index, axis in inputs.items()
        if count > 1 and size_of(dims_of(node, index), axis) == count
    }
    present = [index for index, dims in enumerate(node.outputs) if dims is not None]
    return Factor(found, {i: Axis(axis) for i, axis in outputs.items() if i in present})


def heads_axis(node: OperatorNode, index: int, axis: int, heads: int) -> dict[int, Axis]:
    """The axis of an operand that counts heads, if it does: it may be missing, or broadcast."""
    return {index: Axis(axis)} if size_of(dims_of(node, index), axis) == heads > 1 else {}


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of an operator's inputs; -1 where it has none."""

    bias: int
    mask: int
    attention_bias: int
    past: int
    per_column: tuple[int, ...] = ()


_MERGED = {
    "Attention": _Places(bias=2, mask=3, attention_bias=5, past=4),
    "QAttention": _Places(bias=2, mask=5, attention_bias=-1, past=8, per_column=(4, 7)),
}
_APART = {
    "MultiHeadAttention": _Places(bias=3, mask=4, attention_bias=5, past=6),
    "DecoderMaskedMultiHeadAttention": _Places(bias=10, mask=3, attention_bias=4, past=5),
}


def present_axes(node: OperatorNode, axes: Mapping[int, Axis]) -> dict[int, Axis]:
    """The axes of those outputs that are there."""
    return {
        i: axis for i, axis in axes.items() if i < len(node.outputs) and node.outputs[i] is not None
    }


def _fewer_heads(local: LocalNode) -> None:
    """Count the heads of this rank."""
    out = local.strategy.outputs[0]
    if not isinstance(out, Split) or out.axis != 2:
        return
    share = out.size(local.rank) / out.length
    local.set("num_heads", round(local.source.int_of("num_heads") * share))
    sizes = local.source.ints_of("qkv_hidden_sizes")
    if sizes is not None:
        local.set("qkv_hidden_sizes", [round(size * share) for size in sizes])


@factors_of("com.microsoft::Attention", "com.microsoft::QAttention", localise=_fewer_heads)
def merged_attention(node: OperatorNode) -> Factors:
    """With the projection: its columns are queries, keys and values."""
    places = _MERGED[node.node.op_type]
    heads, out = node.int_of("num_heads"), size_of(node.outputs[0], 2)
    hidden = size_of(node.inputs[1], 1)
    sizes = node.ints_of("qkv_hidden_sizes") or (hidden // 3,) * 3
    if not hidden or sum(sizes) != hidden or out != sizes[2] or any(s % heads for s in sizes):
        return Factors(())
    own = tuple(size // heads for size in sizes)
    inputs = {1: Axis(1, 1, own)}
    for index in (places.bias, *places.per_column):
        dims = dims_of(node, index)
        if dims is not None and len(dims) == 1 and size_of(dims, 0) == hidden:
            inputs[index] = Axis(0, 1, own)
    inputs |= heads_axis(node, places.past, 2, heads)
    if places.attention_bias > 0:
        inputs |= heads_axis(node, places.attention_bias, 1, heads)
    by_head = Factor(inputs, present_axes(node, {0: Axis(2, own[2]), 1: Axis(2)}))
    axes = {0: 0, places.past: 1, places.attention_bias: 0, places.mask: 0}
    return Factors([by_head, *_by_batch(node, places, axes, {0: 0, 1: 1})])


def _by_batch(
    node: OperatorNode, places: _Places, inputs: Mapping[int, int], outputs: Mapping[int, int]
) -> Sequence[Factor]:
    """The batch, unless the mask lists several numbers for each sequence in one axis."""
    mask, count = dims_of(node, places.mask), size_of(node.inputs[0], 0)
    if mask is not None and size_of(mask, 0) != count:
        return ()
    return [batch_factor(node, {i: axis for i, axis in inputs.items() if i >= 0}, outputs)]


@factors_of(*(f"com.microsoft::{name}" for name in _APART), localise=_fewer_heads)
def multi_head_attention(node: OperatorNode) -> Factors:
    """Queries, keys and values apart; where they are joined, the CPU has no kernel: left whole."""
    places = _APART[node.node.op_type]
    heads, out = node.int_of("num_heads"), size_of(node.outputs[0], 2)
    apart = [dims for dims in node.inputs[:3] if dims is not None and len(dims) < 5]
    if not out or out % heads or len(apart) < 3:
        return Factors(())
    own, value = size_of(node.inputs[0], 2) // heads, out // heads
    segments = (own, own, value)
    inputs = {
        index: Axis(1) if len(dims) == 4 else Axis(2, segments[index])
        for index, dims in enumerate(apart)
    }
    if size_of(dims_of(node, places.bias), 0) == heads * sum(segments):
        inputs[places.bias] = Axis(0, 1, segments)
    for index, axis in ((places.past, 1), (places.past + 1, 1), (places.attention_bias, 1)):
        inputs |= heads_axis(node, index, axis, heads)
    outputs = {0: Axis(2, value), 1: Axis(1), 2: Axis(1), 3: Axis(1)}
    by_head = Factor(inputs, present_axes(node, outputs))
    firsts = {i: 0 for i in range(len(node.inputs)) if i != places.bias}
    return Factors([by_head, *_by_batch(node, places, firsts, dict.fromkeys(range(4), 0))])


def _rotated_heads(local: LocalNode) -> None:
    """Count the heads of this rank, where the attribute does."""
    out = local.strategy.outputs[0]
    heads = local.source.int_of("num_heads")
    last = 2 if len(local.source.inputs[0] or ()) == 3 else 1
    if heads and isinstance(out, Split | Windows) and out.axis == last:
        whole = size_of(local.source.outputs[0], last)
        local.set("num_heads", heads * out.size(local.rank) // whole)


@factors_of("com.microsoft::RotaryEmbedding", localise=_rotated_heads, shares=always)
def rotary_embedding(node: OperatorNode) -> Factors:
    """By heads, by batch, and by place in the sequence where each has its own position."""
    dims, positions = node.inputs[0], node.inputs[1]
    if dims is None or positions is None:
        return Factors(())
    heads, place = node.int_of("num_heads"), 1
    if len(dims) == 4:
        by_head, place = Axis(1), 2
    else:
        rotated = 2 * size_of(node.inputs[2], 1)
        by_head = Axis(2, size_of(dims, 2) // heads if heads else rotated)
    found = [Factor({0: by_head}, {0: by_head})] if by_head.unit else []
    each = {1: Axis(0)} if len(positions) == 2 else {}
    found.append(Factor({0: Axis(0), **each}, {0: Axis(0)}))
    if each:
        found.append(Factor({0: Axis(place), 1: Axis(1)}, {0: Axis(place)}))
    return Factors(found)
