"""Attention: the sizes of heads and caches that queries, keys and tables of rotations agree in."""

from __future__ import annotations

from collections.abc import Mapping

from ..source_graph.contrib_node import ContribNode
from .size_pair import Pairs, PairsOf, SizePair, broadcast, exactly

_PACKED_BITS = 4
"""Elements of a cache with fewer bits than 8 lie packed: their number is not the size of a head."""


def _grouped(one: ContribNode) -> Pairs:
    """Queries, keys and values of heads, which may lie in one value, and the caches of groups."""
    query, key, value = one.shape(0), one.shape(1), one.shape(2)
    heads, groups = one.int_of("num_heads"), one.int_of("kv_num_heads")
    if query is None or len(query) != 3 or not heads or not groups:
        return
    own = query[2] // (heads if key else heads + 2 * groups)
    for given in (key, value):
        yield from exactly(given, (query[0], given[1] if given else 0, groups * own))
    for cache in (one.shape(3), one.shape(4)):
        yield from exactly(cache, (query[0], groups))
        if cache and one.int_of("kv_cache_bit_width") != _PACKED_BITS:
            yield SizePair(cache[3], own)
    yield from exactly(one.shape(3), one.shape(4))
    yield from exactly(one.shape(5), query[:1])
    past, total = one.shape(3), one.values.get(one.name(6))
    if past and total is not None and total.size == 1:  # a cache may be longer than what is in it
        yield SizePair(int(total.flat[0]), past[2] + query[1], only_likely=True)


def _multi_head(one: ContribNode) -> Pairs:
    query, key, value = one.shape(0), one.shape(1), one.shape(2)
    heads = one.int_of("num_heads")
    if query is None or len(query) != 3 or not heads:
        return
    own = query[2] // (heads if key else 3 * heads)
    if key and len(key) == 3:
        yield from exactly(key, (query[0], key[1], query[2]))
        yield from exactly(value, key[:2])
    elif key and len(key) == 4:
        yield from exactly(key, (query[0], heads, key[2], own))
    decodes = one.node.op_type.startswith("Decoder")
    before = one.shape(5 if decodes else 6), one.shape(6 if decodes else 7)
    yield from exactly(before[0], (query[0], heads, before[0][2] if before[0] else 0, own))
    yield from exactly(before[1], (query[0], heads))
    bias, many = one.shape(4 if decodes else 5), key[-2] if key else query[1]
    if bias and not one.int_of("past_present_share_buffer"):
        total = many + (before[0][2] if before[0] else 0)
        yield from broadcast((query[0], heads, query[1], total), bias)


def _fused(one: ContribNode) -> Pairs:
    """Attention of com.microsoft, whose weights are those of queries, keys and values."""
    given, weights, past = one.shape(0), one.shape(1), one.shape(4)
    if one.node.op_type == "QAttention":
        past = one.shape(8)
    if not given or not weights:
        return
    yield SizePair(given[-1], weights[0])
    yield from exactly(one.shape(2), weights[1:] if one.node.op_type == "Attention" else ())
    sizes, heads = one.node.attributes.get("qkv_hidden_sizes"), one.int_of("num_heads")
    if past and heads:
        hidden = sizes.as_ints()[0] if sizes is not None else weights[1] // 3
        yield from exactly(past, (2, given[0], heads, past[3], hidden // heads))


def _standard(one: ContribNode) -> Pairs:
    """Attention of ONNX: heads are an axis of their own, or lie side by side."""
    query, key, value = (_heads(one, index) for index in range(3))
    if query is None or key is None:
        return
    yield from exactly(key, (query[0], key[1], key[2], query[3]))
    yield from exactly(value, key[:3])
    before = one.shape(4), one.shape(5)
    yield from exactly(before[0], (key[0], key[1], before[0][2] if before[0] else 0, key[3]))
    if value is not None:
        yield from exactly(before[1], (*value[:2], before[1][2] if before[1] else 0, value[3]))


def _heads(one: ContribNode, index: int) -> tuple[int, ...] | None:
    """The shape of a query, key or value with an axis of heads."""
    shape = one.shape(index)
    heads = one.int_of("q_num_heads" if index == 0 else "kv_num_heads")
    if shape is None or len(shape) == 4:
        return shape
    return (shape[0], heads, shape[1], shape[2] // heads) if heads else None


def _rotated(one: ContribNode) -> Pairs:
    """Each rotation of a table turns two elements of a head, unless only some are turned."""
    table = one.shape(2 if one.node.domain else 1)
    given, heads = one.shape(0), one.int_of("num_heads")
    if not given or not table or one.int_of("rotary_embedding_dim"):
        return
    if len(given) == 4:
        yield SizePair(given[3], 2 * table[-1])
    elif len(given) == 3 and heads:
        yield SizePair(given[2], heads * 2 * table[-1])


STANDARD: Mapping[str, PairsOf] = {"Attention": _standard, "RotaryEmbedding": _rotated}
"""The pairs of ONNX's own operators."""

CONTRIBUTED: Mapping[str, PairsOf] = {
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _multi_head,
    "Attention": _fused,
    "QAttention": _fused,
    "RotaryEmbedding": _rotated,
}
"""The pairs of operators of com.microsoft."""
