"""Attention in one node: products of queries and keys, a softmax, and a product with values.

Sources: the schemas of onnxruntime, domain com.microsoft, and ONNX's own operator of opset 23.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands
from .rotary import rotate

_LOW = -1e9
"""The score of keys that a query does not see, as large as float32 still adds to exactly."""


def heads_of(e: Expander, x: ir.Value, heads: int) -> ir.Value:
    """x[batch, length, heads * width] as [batch, heads, length, width]."""
    return e.op("Transpose", e.op("Reshape", x, e.constant([0, 0, heads, -1])), perm=[0, 2, 1, 3])


def joined(e: Expander, x: ir.Value) -> ir.Value:
    """x[batch, heads, length, width] as [batch, length, heads * width]."""
    return e.op("Reshape", e.op("Transpose", x, perm=[0, 2, 1, 3]), e.constant([0, 0, -1]))


def attended(
    e: Expander,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    scale: ir.Value,
    masks: Sequence[ir.Value],
    softcap: float = 0.0,
) -> ir.Value:
    """softmax(scale query key' + masks) value; all have [batch, heads, length, width]."""
    scores = e.op("MatMul", e.op("Mul", query, scale), e.op("Transpose", key, perm=[0, 1, 3, 2]))
    if softcap:
        cap = e.like(_first(e), softcap)
        scores = e.op("Mul", e.op("Tanh", e.op("Div", scores, cap)), cap)
    for mask in masks:
        scores = e.op("Add", scores, mask)
    return e.op("MatMul", e.op("Softmax", scores, axis=-1), value)


def scale_of(e: Expander, query: ir.Value, scale: float) -> ir.Value:
    """The factor of scores: by default 1 / sqrt of the width of a head."""
    if scale:
        return e.like(_first(e), scale)
    shape = e.op("Shape", query)
    width = e.op("Slice", shape, e.constant([3]), e.constant([4]))
    root = e.op("Sqrt", e.cast(width, e.dtype(_first(e))))
    return e.op("Div", e.like(_first(e), 1), root)


def _first(e: Expander) -> ir.Value:
    value = e.node.inputs[0]
    assert value is not None
    return value


def length_of(e: Expander, x: ir.Value) -> ir.Value:
    """The length of x[batch, heads, length, width], as a number."""
    part = e.op("Slice", e.op("Shape", x), e.constant([2]), e.constant([3]))
    return e.op("Squeeze", part, e.constant([0]))


def numbers(e: Expander, count: ir.Value) -> ir.Value:
    """0, 1, ... as many as `count` says."""
    return e.op("Range", e.constant(0), count, e.constant(1))


def causal_mask(e: Expander, query: ir.Value, key: ir.Value, past: bool = True) -> ir.Value:
    """A mask[queries, keys]: each query sees no keys that follow it. The queries are at the end of
    the keys where these have a past, else at their beginning.
    """
    rows, columns = length_of(e, query), length_of(e, key)
    places = numbers(e, rows)
    places = e.op("Add", places, e.op("Sub", columns, rows)) if past else places
    later = e.op("Greater", numbers(e, columns), e.op("Unsqueeze", places, e.constant([1])))
    return hidden(e, later)


def hidden(e: Expander, unseen: ir.Value, low: float = _LOW) -> ir.Value:
    """A mask that hides what is true."""
    least = max(low, float(np.finfo(e.dtype(_first(e)).name).min))
    return e.op("Where", unseen, e.like(_first(e), least), e.like(_first(e), 0))


@expands("com.microsoft::Attention")
def attention(
    e: Expander,
    x: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    past: ir.Value | None = None,
    added: ir.Value | None = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    rotary_embedding_dim: int = 0,
) -> list[ir.Value | None]:
    """The projections of x, and their attention; past and present are [2, batch, ...]."""
    if do_rotary or past_present_share_buffer:
        raise ValueError("rotary embeddings and shared buffers are not supported")
    parts = list(qkv_hidden_sizes) or [_third(e, weights)] * 3
    projected = e.op("MatMul", x, weights)
    projected = projected if bias is None else e.op("Add", projected, bias)
    query, key, value = (
        heads_of(e, one, num_heads)
        for one in e.ops("Split", projected, e.constant(parts), outputs=3, axis=2)
    )
    if past is not None:
        before = [e.op("Gather", past, e.constant(at), axis=0) for at in (0, 1)]
        key = e.op("Concat", before[0], key, axis=2)
        value = e.op("Concat", before[1], value, axis=2)
    masks = [] if mask is None else [_padding(e, mask, mask_filter_value)]
    masks += [causal_mask(e, query, key)] if unidirectional else []
    masks += [] if added is None else [added]
    found = joined(e, attended(e, query, key, value, scale_of(e, query, scale), masks))
    if len(e.node.outputs) < 2:
        return [found]
    both = [e.op("Unsqueeze", one, e.constant([0])) for one in (key, value)]
    return [found, e.op("Concat", *both, axis=0)]


def _third(e: Expander, weights: ir.Value) -> int:
    columns = e.sizes(weights)[1]
    if columns is None:
        raise ValueError("the width of its weights is open")
    return columns // 3


def _padding(e: Expander, mask: ir.Value, low: float = _LOW) -> ir.Value:
    """A mask of keys, 1 where they count: [batch, keys], or [batch, queries, keys]."""
    if e.rank(mask) not in (2, 3):
        raise ValueError("masks that count keys are not supported: export a mask of two dimensions")
    unseen = e.op("Equal", mask, e.constant(0, e.dtype(mask)))
    axes = [1, 2] if e.rank(mask) == 2 else [1]
    return e.op("Unsqueeze", hidden(e, unseen, low), e.constant(axes))


@expands("com.microsoft::MultiHeadAttention")
def multi_head_attention(
    e: Expander,
    query: ir.Value,
    key: ir.Value | None = None,
    value: ir.Value | None = None,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    added: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[ir.Value | None]:
    """Attention of projections; keys and values may have heads already, as those of another
    length do.
    """
    if key is None or value is None:
        raise ValueError("packed queries, keys and values are not supported")
    whole = [e.rank(one) == 4 for one in (key, value)]
    given = _biased(e, (query, key, value), bias, any(whole))
    q, k, v = (
        one if e.rank(old) == 4 else heads_of(e, one, num_heads)
        for one, old in zip(given, (query, key, value), strict=True)
    )
    if past_key is not None and past_value is not None:
        k, v = e.op("Concat", past_key, k, axis=2), e.op("Concat", past_value, v, axis=2)
    masks = [] if mask is None else [_padding(e, mask, mask_filter_value)]
    masks += [causal_mask(e, q, k)] if unidirectional else []
    masks += [] if added is None else [added]
    found = joined(e, attended(e, q, k, v, scale_of(e, q, scale), masks))
    return [found, k, v]


def _biased(
    e: Expander, values: Sequence[ir.Value], bias: ir.Value | None, only_query: bool
) -> Sequence[ir.Value]:
    """Queries, keys and values with their parts of the bias."""
    if bias is None:
        return values
    widths = [e.sizes(one)[-1] for one in values]
    if only_query or any(one is None for one in widths):
        raise ValueError("a bias is only supported for queries, keys and values of known widths")
    parts = e.ops("Split", bias, e.constant(widths), outputs=3, axis=0)
    return [e.op("Add", one, part) for one, part in zip(values, parts, strict=True)]


@expands("com.microsoft::GroupQueryAttention")
def group_query_attention(
    e: Expander,
    query: ir.Value,
    key: ir.Value | None,
    value: ir.Value | None,
    past_key: ir.Value | None,
    past_value: ir.Value | None,
    lengths: ir.Value,
    total: ir.Value,
    cosines: ir.Value | None = None,
    sines: ir.Value | None = None,
    positions: ir.Value | None = None,
    added: ir.Value | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
    local_window_size: int = -1,
    smooth_softmax: int = 0,
) -> list[ir.Value | None]:
    """Causal attention, in which several heads of queries share one of keys and values. All rows
    have the same length.
    """
    if smooth_softmax:
        raise ValueError("smooth_softmax is not supported")
    q, k, v = _projections(e, (query, key, value), num_heads, kv_num_heads)
    if do_rotary:
        places = _places(e, lengths, q) if positions is None else positions
        q, k = _rotated(e, (q, k), (cosines, sines), places, bool(rotary_interleaved))
    if past_key is not None and past_value is not None:
        k, v = e.op("Concat", past_key, k, axis=2), e.op("Concat", past_value, v, axis=2)
    masks = [_window(e, q, k, lengths, local_window_size)]
    masks += [] if added is None else [added]
    keys, values = (repeated(e, one, num_heads // kv_num_heads, kv_num_heads) for one in (k, v))
    found = attended(e, q, keys, values, scale_of(e, q, scale), masks, softcap)
    return [joined(e, found), k, v]


def _projections(
    e: Expander, given: Sequence[ir.Value | None], heads: int, groups: int
) -> Sequence[ir.Value]:
    """Queries, keys and values with heads; packed ones are cut."""
    query, key, value = given
    assert query is not None
    if key is not None and value is not None:
        return [heads_of(e, query, heads), heads_of(e, key, groups), heads_of(e, value, groups)]
    packed = heads_of(e, query, heads + 2 * groups)
    return e.ops("Split", packed, e.constant([heads, groups, groups]), outputs=3, axis=1)


def _rotated(
    e: Expander,
    values: Sequence[ir.Value],
    tables: Sequence[ir.Value | None],
    places: ir.Value,
    interleaved: bool,
) -> list[ir.Value]:
    """Queries and keys, rotated by the angles of their places."""
    cosines, sines = tables
    if cosines is None or sines is None:
        raise ValueError("its cosines and sines are missing")
    cosine, sine = (e.op("Gather", one, places) for one in (cosines, sines))
    width = 2 * (e.sizes(cosines)[-1] or 0)
    return [rotate(e, one, cosine, sine, width, interleaved) for one in values]


def _places(e: Expander, lengths: ir.Value, query: ir.Value) -> ir.Value:
    """The position of each query[batch, length]: the last one is that which `lengths` has."""
    last = e.op("Reshape", e.cast(lengths, np.int64), e.constant([-1, 1]))
    count = length_of(e, query)
    before = e.op("Sub", numbers(e, count), e.op("Sub", count, e.constant(1)))
    return e.op("Max", e.op("Add", last, before), e.constant(0))


def _window(
    e: Expander, query: ir.Value, key: ir.Value, lengths: ir.Value, window: int
) -> ir.Value:
    """A mask[queries, keys]: no keys that follow, and none that are farther than the window."""
    mask = causal_mask(e, query, key)
    if window < 0:
        return mask
    rows, columns = length_of(e, query), length_of(e, key)
    places = e.op("Add", numbers(e, rows), e.op("Sub", columns, rows))
    first = e.op("Sub", e.op("Unsqueeze", places, e.constant([1])), e.constant(window))
    return e.op("Add", mask, hidden(e, e.op("LessOrEqual", numbers(e, columns), first)))


def repeated(e: Expander, x: ir.Value, times: int, groups: int) -> ir.Value:
    """Each head as often as queries share it."""
    if times == 1:
        return x
    order = [head for head in range(groups) for _ in range(times)]
    return e.op("Gather", x, e.constant(order), axis=1)
