"""Attention rules of onnxruntime's own operators: split by batch and by heads, never cutting one.

Where query heads share keys and values, a step is a group of them. With fewer groups than ranks,
or groups that do not divide evenly, the query heads are split instead: each rank then takes the
keys and values of its own query heads out of the whole ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..graph.dims import Dims, fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial, Split
from .registry import factors_of


def _dims(node: OperatorNode, index: int) -> Dims | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _size(dims: Dims | None, axis: int) -> int:
    """The size of an axis; 0 where it is unknown, open or missing."""
    return 0 if dims is None else fixed(dims[axis]) or 0


def _batch(node: OperatorNode, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> Factor:
    """The factor of the batch: axes by position, of those operands that have it."""
    count = _size(node.inputs[0], 0)
    found = {
        index: Axis(axis)
        for index, axis in inputs.items()
        if count > 1 and _size(_dims(node, index), axis) == count
    }
    present = [index for index, dims in enumerate(node.outputs) if dims is not None]
    return Factor(found, {i: Axis(axis) for i, axis in outputs.items() if i in present})


def _heads_axis(node: OperatorNode, index: int, axis: int, heads: int) -> dict[int, Axis]:
    """The axis of an operand that counts heads, if it does: it may be missing, or broadcast."""
    return {index: Axis(axis)} if _size(_dims(node, index), axis) == heads > 1 else {}


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


def _present(node: OperatorNode, axes: Mapping[int, Axis]) -> dict[int, Axis]:
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
    heads, out = node.int_of("num_heads"), _size(node.outputs[0], 2)
    hidden = _size(node.inputs[1], 1)
    sizes = node.ints_of("qkv_hidden_sizes") or (hidden // 3,) * 3
    if not hidden or sum(sizes) != hidden or out != sizes[2] or any(s % heads for s in sizes):
        return Factors(())
    own = tuple(size // heads for size in sizes)
    inputs = {1: Axis(1, 1, own)}
    for index in (places.bias, *places.per_column):
        dims = _dims(node, index)
        if dims is not None and len(dims) == 1 and _size(dims, 0) == hidden:
            inputs[index] = Axis(0, 1, own)
    inputs |= _heads_axis(node, places.past, 2, heads)
    if places.attention_bias > 0:
        inputs |= _heads_axis(node, places.attention_bias, 1, heads)
    by_head = Factor(inputs, _present(node, {0: Axis(2, own[2]), 1: Axis(2)}))
    axes = {0: 0, places.past: 1, places.attention_bias: 0, places.mask: 0}
    return Factors([by_head, *_by_batch(node, places, axes, {0: 0, 1: 1})])


def _by_batch(
    node: OperatorNode, places: _Places, inputs: Mapping[int, int], outputs: Mapping[int, int]
) -> Sequence[Factor]:
    """The batch, unless the mask lists several numbers for each sequence in one axis."""
    mask, count = _dims(node, places.mask), _size(node.inputs[0], 0)
    if mask is not None and _size(mask, 0) != count:
        return ()
    return [_batch(node, {i: axis for i, axis in inputs.items() if i >= 0}, outputs)]


@factors_of(*(f"com.microsoft::{name}" for name in _APART), localise=_fewer_heads)
def multi_head_attention(node: OperatorNode) -> Factors:
    """Queries, keys and values apart; where they are joined, the CPU has no kernel: left whole."""
    places = _APART[node.node.op_type]
    heads, out = node.int_of("num_heads"), _size(node.outputs[0], 2)
    apart = [dims for dims in node.inputs[:3] if dims is not None and len(dims) < 5]
    if not out or out % heads or len(apart) < 3:
        return Factors(())
    own, value = _size(node.inputs[0], 2) // heads, out // heads
    segments = (own, own, value)
    inputs = {
        index: Axis(1) if len(dims) == 4 else Axis(2, segments[index])
        for index, dims in enumerate(apart)
    }
    if _size(_dims(node, places.bias), 0) == heads * sum(segments):
        inputs[places.bias] = Axis(0, 1, segments)
    for index, axis in ((places.past, 1), (places.past + 1, 1), (places.attention_bias, 1)):
        inputs |= _heads_axis(node, index, axis, heads)
    outputs = {0: Axis(2, value), 1: Axis(1), 2: Axis(1), 3: Axis(1)}
    by_head = Factor(inputs, _present(node, outputs))
    firsts = {i: 0 for i in range(len(node.inputs)) if i != places.bias}
    return Factors([by_head, *_by_batch(node, places, firsts, dict.fromkeys(range(4), 0))])


def _own_groups(local: LocalNode) -> None:
    """Count the heads of this rank, and take their keys and values where these are whole."""
    out = local.strategy.outputs[0]
    if not isinstance(out, Split) or out.axis != 2:
        return
    heads, groups = local.source.int_of("num_heads"), local.source.int_of("kv_num_heads")
    start, stop = (bound * heads // out.length for bound in out.intervals(local.rank)[0])
    local.set("num_heads", stop - start)
    if not _takes_groups(local):
        local.set("kv_num_heads", (stop - start) * groups // heads)
        return
    wanted = [head * groups // heads for head in range(start, stop)]
    kept = sorted(set(wanted))
    if any(wanted.count(group) != wanted.count(kept[0]) for group in kept):
        kept = wanted
    local.set("kv_num_heads", len(kept))
    if groups == 1:
        return
    _take_groups(local, kept)
    _give_groups(local, kept, range(-(-start * groups // heads), -(-stop * groups // heads)))


def _takes_groups(local: LocalNode) -> bool:
    """Whether the query heads are split and the keys whole."""
    query, key = local.strategy.inputs[:2]
    apart = local.source.inputs[1] is not None
    return apart and isinstance(query, Split) and not isinstance(key, Split)


def _take_groups(local: LocalNode, kept: Sequence[int]) -> None:
    groups = local.source.int_of("kv_num_heads")
    for index in (1, 2, 3, 4):
        dims = _dims(local.source, index)
        if dims is None:
            continue
        axis = 2 if index < 3 else 1
        width = _size(dims, axis) // groups
        places = [group * width + place for group in kept for place in range(width)]
        taken = local.before(
            "Gather",
            [local.input(index), local.constant(np.array(places, np.int64))],
            {"axis": axis},
        )
        local.node.replace_input_with(index, taken)


def _give_groups(local: LocalNode, kept: Sequence[int], given: range) -> None:
    """Make terms of the new keys and values: each group is given by the rank of its first head."""
    groups = range(local.source.int_of("kv_num_heads"))
    places = [kept.index(group) if group in given else 0 for group in groups]
    mask = np.array([group in given for group in groups]).reshape(1, -1, 1, 1)
    for output in (1, 2):
        if output < len(local.strategy.outputs) and isinstance(
            local.strategy.outputs[output], Partial
        ):
            dtype = local.node.outputs[output].dtype or ir.DataType.FLOAT
            zero = local.constant(np.zeros((), dtype.numpy()))
            local.select(local.constant(mask), zero, output)
            order = local.constant(np.array(places, np.int64))
            local.after("Gather", [order], output, {"axis": 1})


@factors_of("com.microsoft::GroupQueryAttention", localise=_own_groups)
def group_query_attention(node: OperatorNode) -> Factors:
    """By groups of query heads that share keys and values, by query heads, and by batch."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    out = _size(node.outputs[0], 2)
    scales = [dim for index in (12, 13) for dim in _dims(node, index) or ()]
    if not out or heads % groups or any(fixed(dim) != 1 for dim in scales):
        return Factors(())
    own, many = out // heads, heads // groups
    joined = _dims(node, 1) is None
    found = [_by_groups(node, own, many)]
    if groups % node.ranks and many > 1 and not joined:
        found.append(_by_query_heads(node, own))
    inputs = {index: 0 for index in (0, 1, 2, 3, 4, 5, 9, 10, 16)}
    return Factors([*found, _batch(node, inputs, dict.fromkeys(range(4), 0))])


def _by_groups(node: OperatorNode, own: int, many: int) -> Factor:
    """A step is a group: its query heads, and its one head of keys and values."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    if _dims(node, 1) is None:
        inputs = {0: Axis(2, own, (many, 1, 1))}
    else:
        inputs = {0: Axis(2, many * own), 1: Axis(2, own), 2: Axis(2, own)}
    for index in (3, 4):
        inputs |= _heads_axis(node, index, 1, groups)
    for index, axis in ((10, 1), (11, 0)):
        if _size(_dims(node, index), axis) == heads > 1:
            inputs[index] = Axis(axis, many)
    outputs = {0: Axis(2, many * own), 1: Axis(1), 2: Axis(1), 3: Axis(1, many)}
    return Factor(inputs, _present(node, outputs))


def _by_query_heads(node: OperatorNode, own: int) -> Factor:
    """A step is a query head; the new keys and values are terms.

    With one head of keys and values, every rank has it and gives it whole.
    """
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    inputs = {0: Axis(2, own)}
    inputs |= _heads_axis(node, 10, 1, heads) | _heads_axis(node, 11, 0, heads)
    outputs = _present(node, {0: Axis(2, own), 3: Axis(1)})
    return Factor(inputs, outputs, "sum" if groups > 1 else "")


def _rotated_heads(local: LocalNode) -> None:
    """Count the heads of this rank, where the attribute does."""
    out = local.strategy.outputs[0]
    heads = local.source.int_of("num_heads")
    last = 2 if len(local.source.inputs[0] or ()) == 3 else 1
    if heads and isinstance(out, Split) and out.axis == last:
        local.set("num_heads", heads * out.size(local.rank) // out.length)


@factors_of("com.microsoft::RotaryEmbedding", localise=_rotated_heads)
def rotary_embedding(node: OperatorNode) -> Factors:
    """By heads, by batch, and by place in the sequence where each has its own position."""
    dims, positions = node.inputs[0], node.inputs[1]
    if dims is None or positions is None:
        return Factors(())
    heads, place = node.int_of("num_heads"), 1
    if len(dims) == 4:
        by_head, place = Axis(1), 2
    else:
        rotated = 2 * _size(node.inputs[2], 1)
        by_head = Axis(2, _size(dims, 2) // heads if heads else rotated)
    found = [Factor({0: by_head}, {0: by_head})] if by_head.unit else []
    each = {1: Axis(0)} if len(positions) == 2 else {}
    found.append(Factor({0: Axis(0), **each}, {0: Axis(0)}))
    if each:
        found.append(Factor({0: Axis(place), 1: Axis(1)}, {0: Axis(place)}))
    return Factors(found)
