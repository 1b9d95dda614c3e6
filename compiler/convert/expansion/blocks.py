"""Blocks of quantised weights: they become float32 when the model is converted.

Source: the schemas of onnxruntime, domain com.microsoft.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("com.microsoft::MatMulNBits")
def matmul_of_blocks(
    e: Expander,
    a: ir.Value,
    packed: ir.Value,
    scales: ir.Value,
    zeros: ir.Value | None = None,
    order: ir.Value | None = None,
    bias: ir.Value | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> ir.Value:
    """a times the transpose of N rows of K numbers, which share a scale in each block."""
    if order is not None or weight_prepacked or bits not in (2, 4, 8):
        raise ValueError("g_idx, prepacked weights, and other widths than 2, 4 or 8 bits")
    blocks = -(-K // block_size)
    numbers = unpacked(e.array(packed).reshape(N, -1), bits)[:, : blocks * block_size]
    scale = e.array(scales).astype(np.float32).reshape(N, blocks, 1)
    if zeros is None:
        zero = np.full((N, blocks, 1), 1 << bits - 1, np.float32)
    else:
        zero = _zeros(e.array(zeros), bits, N, blocks)
    weight = (numbers.reshape(N, blocks, block_size).astype(np.float32) - zero) * scale
    dense = weight.reshape(N, -1)[:, :K].T
    stored = e.constant(np.ascontiguousarray(dense), e.dtype(a))
    found = e.op("MatMul", a, stored)
    return found if bias is None else e.op("Add", found, bias)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of bytes, the lowest bits of each first, along the last axis."""
    mask, each = (1 << bits) - 1, 8 // bits
    parts = [packed >> bits * at & mask for at in range(each)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def _zeros(zeros: np.ndarray, bits: int, rows: int, blocks: int) -> np.ndarray:
    """A zero point for each block; packed rows end with whole bytes."""
    if zeros.dtype != np.uint8:
        return zeros.astype(np.float32).reshape(rows, blocks, 1)
    numbers = unpacked(zeros.reshape(rows, -1), bits)[:, :blocks]
    return numbers.astype(np.float32).reshape(rows, blocks, 1)
