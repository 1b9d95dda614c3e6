"""Attention of ONNX's opset 23: with heads of its own, or in one axis; masks that add or hide."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from .attention import attended, causal_mask, heads_of, hidden, joined, repeated, scale_of
from .expander import Expander
from .registry import expands


@expands("Attention")
def attention(
    e: Expander,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    mask: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
    lengths: ir.Value | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> list[ir.Value | None]:
    """Several heads of queries may share one of keys and values."""
    if lengths is not None:
        raise ValueError("nonpad_kv_seqlen is not supported")
    flat = e.rank(query) == 3
    heads, groups = q_num_heads, kv_num_heads
    if flat:
        q, k, v = (
            heads_of(e, one, count)
            for one, count in ((query, heads), (key, groups), (value, groups))
        )
    else:
        (heads, groups), (q, k, v) = _counts(e, query, key), (query, key, value)
    if past_key is not None and past_value is not None:
        k, v = e.op("Concat", past_key, k, axis=2), e.op("Concat", past_value, v, axis=2)
    masks = [causal_mask(e, q, k, past=past_key is not None)] if is_causal else []
    masks += [] if mask is None else [_added(e, mask)]
    keys, values = (repeated(e, one, heads // groups, groups) for one in (k, v))
    found = attended(e, q, keys, values, scale_of(e, q, scale), masks, softcap)
    if mask is not None and e.dtype(mask) == np.bool_:
        found = _where_seen(e, found, masks)
    return [joined(e, found) if flat else found, k, v]


def _counts(e: Expander, query: ir.Value, key: ir.Value) -> tuple[int, int]:
    """The heads of queries, and of keys; ValueError where they are open."""
    heads, groups = e.sizes(query)[1], e.sizes(key)[1]
    if heads is None or groups is None:
        raise ValueError("the number of its heads is open: fix it by --inputShape")
    return heads, groups


def _where_seen(e: Expander, found: ir.Value, masks: Sequence[ir.Value]) -> ir.Value:
    """0 for queries that see no key."""
    total = reduce(lambda a, b: e.op("Add", a, b), masks)
    unseen = e.op("Less", e.reduced("ReduceMax", total, [-1]), e.like(_query(e), -1))
    return e.op("Where", unseen, e.like(_query(e), 0), found)


def _query(e: Expander) -> ir.Value:
    value = e.node.inputs[0]
    assert value is not None
    return value


def _added(e: Expander, mask: ir.Value) -> ir.Value:
    """A mask that is added to scores; False hides."""
    if e.dtype(mask) != np.bool_:
        return mask
    return hidden(e, e.op("Not", mask))
