"""Attention: fused attention of other devices and rotary positions, taken apart."""

from __future__ import annotations

import numpy as np

from ..builder import (
    BOOL,
    END,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    dims,
    integer,
    known,
    lowers,
    moderate,
    number,
    where,
)

_LAYOUTS = {0: "BSH", 1: "BNSD", 2: "SBH", 3: "BSND"}
_FAR = 2147483647
_LARGEST_MASK = 1 << 28  # elements, and bytes: sequences of 16384


def _attention(
    b: Builder,
    query: OnnxTensor,
    key: OnnxTensor,
    value: OnnxTensor,
    scale: float,
    mask: OnnxTensor | None,
    shift: Value,
) -> OnnxTensor:
    """softmax(scale * query @ key^T + shift) @ value, where a mask is true left out.

    All are [batch, heads, length, width]. Fewer key heads than query heads are shared by groups of
    neighbours.
    """
    heads, kept = (x.shape[1] if x.shape is not None else -1 for x in (query, key))
    if min(heads, kept) > 0:
        key, value = (_repeated(b, x, heads // kept) for x in (key, value))
    scores = b.op("MatMul", b.op("Mul", query, scale), b.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = scores if shift is None else b.op("Add", scores, as_dtype(b, shift, query.dtype))
    if mask is not None:
        lowest = -np.inf if query.dtype.itemsize > 2 else -65504.0
        scores = where(b, mask, lowest, scores, query.dtype)
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), value)


def _repeated(b: Builder, x: OnnxTensor, times: int) -> OnnxTensor:
    """Each head so many times."""
    if times == 1:
        return x
    moderate(known(x, 1) * times, "the number of heads")
    heads = np.repeat(np.arange(known(x, 1)), times)
    result = b.op("Gather", x, heads, axis=1)
    return OnnxTensor(
        result.name, x.dtype, (x.shape or ())[:1] + (len(heads),) + (x.shape or ())[2:]
    )


def _to_heads(b: Builder, x: OnnxTensor, layout: str, width: int, heads: int) -> OnnxTensor:
    """x as [batch, heads, length, width]; `heads` counts where the width is unknown (-1)."""
    if layout == "BNSD":
        return x
    if layout in ("BSH", "SBH"):
        heads = known(x, 2) // width if width > 0 else heads
        shape = (*(x.shape or ())[:2], heads, width)
        split = b.op("Reshape", x, b.tensor((*dims(b, x)[:2], heads, -1)))
        x = OnnxTensor(split.name, x.dtype, shape)
    perm = [1, 2, 0, 3] if layout == "SBH" else [0, 2, 1, 3]
    result = b.op("Transpose", x, perm=perm)
    return OnnxTensor(result.name, x.dtype, tuple((x.shape or ())[axis] for axis in perm))


def _from_heads(b: Builder, y: OnnxTensor, like: OnnxTensor, layout: str) -> OnnxTensor:
    """The result in the layout of the query."""
    if layout == "BNSD":
        return y
    moved = b.op("Transpose", y, perm=[2, 0, 1, 3] if layout == "SBH" else [0, 2, 1, 3])
    return moved if layout == "BSND" else b.op("Reshape", moved, b.op("Shape", like))


def _by_layout(
    b: Builder,
    inputs: tuple[Value, Value, Value],
    heads: Value,
    layout: Value,
    scale: Value,
    mask: Value,
    shift: Value,
    causal: str = "",
) -> OnnxTensor:
    """The attention of (query, key, value) in a layout; `causal` is the corner of a causal mask."""
    word = str(_LAYOUTS.get(layout, layout))
    if word not in _LAYOUTS.values():
        raise ValueError(f"the layout {word} is not supported: export with BSH, BNSD, BSND or SBH")
    tensors, count = [b.tensor(x) for x in inputs], integer(heads, "the number of heads")
    width = (tensors[0].shape or (-1,))[-1]
    width = width // count if width > 0 and word in ("BSH", "SBH") else width
    query, key, value = (_to_heads(b, x, word, width, count) for x in tensors)
    if causal:
        mask = _causal(b, query, key, causal)
    mask = None if mask is None else as_dtype(b, mask, BOOL)
    shift = None if shift is None else b.tensor(shift)
    y = _attention(b, query, key, value, float(number(scale, "the scale")), mask, shift)
    return _from_heads(b, y, tensors[0], word)


def _causal(b: Builder, query: OnnxTensor, keys: OnnxTensor, corner: str) -> OnnxTensor:
    """True above the diagonal that begins in the upper left, or ends in the lower right corner."""
    rows, columns = known(query, 2), known(keys, 2)
    moderate(rows * columns, "the number of elements of the causal mask", _LARGEST_MASK)
    above = 1 if corner == "left" else columns - rows + 1
    return b.once(
        f"causal mask {rows} {columns} {above}",
        lambda: np.triu(np.ones((rows, columns), np.bool_), above),
    )


def _mask_of(mode: Value, mask: Value) -> tuple[Value, str]:
    """The mask and the causal corner that a sparse mode means."""
    mode = integer(mode, "the sparse mode")
    if mode in (2, 3):
        return None, "left" if mode == 2 else "right"
    if mode > 3:
        raise ValueError(f"the sparse mode {mode} is not supported: export with modes 0 to 3")
    return mask, ""


@lowers("FlashAttentionScore")
def flash_attention_score(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    real_shift: Value,
    drop_mask: Value,
    padding_mask: Value,
    attn_mask: Value,
    prefix: Value,
    actual_seq_qlen: Value,
    actual_seq_kvlen: Value,
    head_num: Value,
    keep_prob: Value = 1.0,
    scale_value: Value = 1.0,
    pre_tokens: Value = _FAR,
    next_tokens: Value = _FAR,
    inner_precise: Value = 0,
    input_layout: Value = 0,
    sparse_mode: Value = 0,
) -> Value:
    """(three that only training reads, the attention)."""
    mask, causal = _mask_of(sparse_mode, attn_mask)
    if any(x is not None for x in (prefix, actual_seq_qlen, actual_seq_kvlen)):
        raise ValueError("prefixes and packed sequences are not supported")
    inputs, scale = (query, key, value), scale_value
    y = _by_layout(b, inputs, head_num, input_layout, scale, mask, real_shift, causal)
    return None, None, None, y


@lowers("PromptFlashAttention")
def prompt_flash_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value,
    actual_seq_lengths: Value,
    actual_seq_lengths_kv: Value,
    pse_shift: Value,
    deq_scale1: Value,
    quant_scale1: Value,
    deq_scale2: Value,
    quant_scale2: Value,
    quant_offset2: Value,
    num_heads: Value,
    scale_value: Value = 1.0,
    pre_tokens: Value = _FAR,
    next_tokens: Value = 0,
    input_layout: Value = 0,
    num_key_value_heads: Value = 0,
    sparse_mode: Value = 0,
    inner_precise: Value = 1,
) -> Value:
    """The attention of a whole prompt; without a mask, every token sees all others."""
    unsupported = (
        actual_seq_lengths,
        actual_seq_lengths_kv,
        deq_scale1,
        quant_scale1,
        deq_scale2,
        quant_scale2,
    )
    if any(x is not None for x in unsupported):
        raise ValueError("sequence lengths and quantised attention are not supported")
    mask, causal = _mask_of(sparse_mode, attn_mask)
    inputs, scale = (query, key, value), scale_value
    return _by_layout(b, inputs, num_heads, input_layout, scale, mask, pse_shift, causal)


@lowers("IncreFlashAttention")
def incre_flash_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value = None,
    actual_seq_lengths: Value = None,
    pse_shift: Value = None,
    *rest: Value,
) -> Value:
    """The attention of one new token; keys and values come as tuples of one tensor.

    `rest`: nine inputs of quantisation and paging, then the number of heads, the layout, the scale
    and the number of key heads.
    """
    if len(rest) < 13 or any(x is not None for x in (actual_seq_lengths, *rest[:9])):
        raise ValueError("sequence lengths, quantised and paged attention are not supported")
    heads, layout, scale = rest[9:12]
    keys, values = (x[0] if isinstance(x, tuple) else x for x in (key, value))
    return _by_layout(b, (query, keys, values), heads, layout, scale, attn_mask, pse_shift)


@lowers("RotaryPositionEmbedding")
def rotary_position_embedding(
    b: Builder, x: Value, cos: Value, sin: Value, mode: Value = 0
) -> Value:
    """x * cos + rotated x * sin; mode 0 rotates halves, mode 1 pairs of neighbours."""
    x = b.tensor(x)
    if integer(mode, "the mode") not in (0, 1):
        raise ValueError(f"the mode {mode} is not supported: export with 0 or 1")
    if mode == 0:
        first, second = b.ops("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = b.op("Concat", b.op("Neg", second), first, axis=-1)
    else:
        even, odd = (b.op("Slice", x, (start,), (END,), (-1,), (2,)) for start in (0, 1))
        pairs = [b.op("Unsqueeze", part, (-1,)) for part in (b.op("Neg", odd), even)]
        turned = b.op("Reshape", b.op("Concat", *pairs, axis=-1), b.op("Shape", x))
    return b.op("Add", b.op("Mul", x, b.tensor(cos)), b.op("Mul", turned, b.tensor(sin)))
