"""Fused attention of other devices, and the rotation of positions, taken apart into what onnxruntime runs."""

from __future__ import annotations

import numpy as np

from .arguments import integer, known, moderate, number
from .builder import Builder, Tensor, Value
from .linear import gemm
from .math import as_dtype, where
from .registry import lowers
from .shape import dims

_LAYOUTS = {0: "BSH", 1: "BNSD", 2: "SBH", 3: "BSND"}
_FAR = 2147483647
_LARGEST_MASK = 1 << 28  # elements, and bytes: sequences of 16384
_END = np.iinfo(np.int64).max


def attention(b: Builder, query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None = None,
              shift: Tensor | None = None) -> Tensor:
    """softmax(scale * query @ key^T + shift, masked out where the mask is true) @ value; all are [B, N, S, D].

    Fewer key heads than query heads are shared by groups of neighbours.
    """
    heads, kept = (x.shape[1] if x.shape is not None else -1 for x in (query, key))
    if min(heads, kept) > 0:
        key, value = (_repeated(b, x, heads // kept) for x in (key, value))
    scores = b.op("MatMul", b.op("Mul", query, scale), b.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = scores if shift is None else b.op("Add", scores, as_dtype(b, shift, query.dtype))
    if mask is not None:
        scores = where(b, mask, -np.inf if query.dtype.itemsize > 2 else -65504.0, scores, query.dtype)
    result: Tensor = b.op("MatMul", b.op("Softmax", scores, axis=-1), value)
    return result


def _repeated(b: Builder, x: Tensor, times: int) -> Tensor:
    """Each head so many times."""
    if times == 1:
        return x
    moderate(known(x, 1) * times, "the number of heads")
    heads = np.repeat(np.arange(known(x, 1)), times)
    result: Tensor = b.op("Gather", x, heads, axis=1)
    return Tensor(result.name, x.dtype, (x.shape or ())[:1] + (len(heads),) + (x.shape or ())[2:])


def _to_heads(b: Builder, x: Tensor, layout: str, width: int, heads: int) -> Tensor:
    """x as [B, N, S, D], with so many heads if their width is unknown (-1)."""
    if layout == "BNSD":
        return x
    if layout in ("BSH", "SBH"):
        heads = known(x, 2) // width if width > 0 else heads
        shape = (*(x.shape or ())[:2], heads, width)
        split = b.op("Reshape", x, b.tensor((*dims(b, x)[:2], heads, -1)))
        x = Tensor(split.name, x.dtype, shape)
    perm = [1, 2, 0, 3] if layout == "SBH" else [0, 2, 1, 3]
    result: Tensor = b.op("Transpose", x, perm=perm)
    return Tensor(result.name, x.dtype, tuple((x.shape or ())[axis] for axis in perm))


def _from_heads(b: Builder, y: Tensor, like: Tensor, layout: str) -> Tensor:
    """The result in the layout of the query."""
    if layout == "BNSD":
        return y
    moved: Tensor = b.op("Transpose", y, perm=[2, 0, 1, 3] if layout == "SBH" else [0, 2, 1, 3])
    if layout == "BSND":
        return moved
    result: Tensor = b.op("Reshape", moved, b.op("Shape", like))
    return result


def _by_layout(b: Builder, q: Tensor, k: Tensor, v: Tensor, heads: int, layout: Value, scale: Value,
               mask: Value, shift: Value, causal: str = "", kv_heads: int = 0) -> Tensor:
    word = str(_LAYOUTS.get(layout, layout))
    if word not in _LAYOUTS.values():
        raise ValueError(f"the layout {word} is not supported: export with BSH, BNSD, BSND or SBH")
    width = (q.shape or (-1,))[-1]
    width = width // heads if width > 0 and word in ("BSH", "SBH") else width
    query, keys, values = (_to_heads(b, x, word, width, heads) for x in (q, k, v))
    if causal:
        mask = _causal(b, query, keys, causal)
    mask = None if mask is None else as_dtype(b, mask, np.dtype(np.bool_))
    y = attention(b, query, keys, values, float(number(scale, "the scale")), mask,
                  None if shift is None else b.tensor(shift))
    return _from_heads(b, y, q, word)


def _causal(b: Builder, query: Tensor, keys: Tensor, corner: str) -> Tensor:
    """What lies above the diagonal that begins in the upper left, or ends in the lower right corner."""
    rows, columns = known(query, 2), known(keys, 2)
    moderate(rows * columns, "the number of elements of the causal mask", _LARGEST_MASK)
    above = 1 if corner == "left" else columns - rows + 1
    return b.once(f"causal mask {rows} {columns} {above}", lambda: np.triu(np.ones((rows, columns), np.bool_), above))


def _mask_of(mode: Value, mask: Value, before: Value, behind: Value) -> tuple[Value, str]:
    """The mask and the causal corner that a sparse mode means."""
    mode = integer(mode, "the sparse mode")
    if mode in (2, 3):
        return None, "left" if mode == 2 else "right"
    if mode > 3:
        raise ValueError(f"the sparse mode {mode} is not supported: export with modes 0 to 3")
    return mask, ""


@lowers("FlashAttentionScore")
def flash_attention_score(
        b: Builder, query: Value, key: Value, value: Value, real_shift: Value, drop_mask: Value, padding_mask: Value,
        attn_mask: Value, prefix: Value, actual_seq_qlen: Value, actual_seq_kvlen: Value, head_num: Value,
        keep_prob: Value = 1.0, scale_value: Value = 1.0, pre_tokens: Value = _FAR, next_tokens: Value = _FAR,
        inner_precise: Value = 0, input_layout: Value = 0, sparse_mode: Value = 0) -> Value:
    """(two and a third that only training reads, the attention)."""
    mask, causal = _mask_of(sparse_mode, attn_mask, pre_tokens, next_tokens)
    if any(x is not None for x in (prefix, actual_seq_qlen, actual_seq_kvlen)):
        raise ValueError("prefixes and packed sequences are not supported")
    y = _by_layout(b, b.tensor(query), b.tensor(key), b.tensor(value), integer(head_num, "head_num"), input_layout,
                   scale_value, mask, real_shift, causal)
    return None, None, None, y


@lowers("PromptFlashAttention")
def prompt_flash_attention(
        b: Builder, query: Value, key: Value, value: Value, attn_mask: Value, actual_seq_lengths: Value,
        actual_seq_lengths_kv: Value, pse_shift: Value, deq_scale1: Value, quant_scale1: Value, deq_scale2: Value,
        quant_scale2: Value, quant_offset2: Value, num_heads: Value, scale_value: Value = 1.0,
        pre_tokens: Value = _FAR, next_tokens: Value = 0, input_layout: Value = 0, num_key_value_heads: Value = 0,
        sparse_mode: Value = 0, inner_precise: Value = 1) -> Value:
    """The attention of a whole prompt; without a mask, every token sees all others."""
    unsupported = (actual_seq_lengths, actual_seq_lengths_kv, deq_scale1, quant_scale1, deq_scale2, quant_scale2)
    if any(x is not None for x in unsupported):
        raise ValueError("sequence lengths and quantised attention are not supported")
    mask, causal = _mask_of(sparse_mode, attn_mask, pre_tokens, next_tokens)
    return _by_layout(b, b.tensor(query), b.tensor(key), b.tensor(value), integer(num_heads, "num_heads"),
                      input_layout, scale_value, mask, pse_shift, causal)


@lowers("IncreFlashAttention")
def incre_flash_attention(
        b: Builder, query: Value, key: Value, value: Value, attn_mask: Value = None, actual_seq_lengths: Value = None,
        pse_shift: Value = None, *rest: Value) -> Value:
    """The attention of one new token; keys and values come as tuples of one tensor.

    `rest`: nine inputs of quantisation and paging, then the number of heads, the layout, the scale and
    the number of key heads.
    """
    if len(rest) < 13 or any(x is not None for x in (actual_seq_lengths, *rest[:9])):
        raise ValueError("sequence lengths, quantised and paged attention are not supported")
    heads, layout, scale = rest[9:12]
    keys, values = (x[0] if isinstance(x, tuple) else x for x in (key, value))
    return _by_layout(b, b.tensor(query), b.tensor(keys), b.tensor(values), integer(heads, "num_heads"), layout, scale,
                      attn_mask, pse_shift)


@lowers("RotaryPositionEmbedding")
def rotary_position_embedding(b: Builder, x: Value, cos: Value, sin: Value, mode: Value = 0) -> Value:
    """x * cos + rotated x * sin; rotated in halves (0), or in pairs of neighbours (1)."""
    x = b.tensor(x)
    if integer(mode, "the mode") not in (0, 1):
        raise ValueError(f"the mode {mode} is not supported: export with 0 or 1")
    if mode == 0:
        first, second = b.op("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = b.op("Concat", b.op("Neg", second), first, axis=-1)
    else:
        even, odd = (b.op("Slice", x, (start,), (_END,), (-1,), (2,)) for start in (0, 1))
        pairs = [b.op("Unsqueeze", part, (-1,)) for part in (b.op("Neg", odd), even)]
        turned = b.op("Reshape", b.op("Concat", *pairs, axis=-1), b.op("Shape", x))
    return b.op("Add", b.op("Mul", x, b.tensor(cos)), b.op("Mul", turned, b.tensor(sin)))


@lowers("GroupedMatmul")
def grouped_matmul(
        b: Builder, x: Value, weight: Value, bias: Value = None, scale: Value = None, offset: Value = None,
        antiquant_scale: Value = None, antiquant_offset: Value = None, group_list: Value = None, split_item: Value = 0,
        group_type: Value = -1, transpose_a: Value = False, transpose_b: Value = False) -> Value:
    """One product per pair of a tensor and a weight."""
    if group_list is not None or any(p is not None for p in (scale, offset, antiquant_scale, antiquant_offset)):
        raise ValueError("rows grouped at run time and quantised weights are not supported: write a MatMul per expert")
    biases = bias if isinstance(bias, tuple) and bias else (None,) * len(x)
    return tuple(gemm(b, b.tensor(rows), b.tensor(w), None if c is None else b.tensor(c), trans_b=bool(transpose_b))
                 for rows, w, c in zip(x, weight, biases, strict=True))
