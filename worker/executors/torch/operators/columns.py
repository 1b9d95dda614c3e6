"""Columns: images from the windows that they were taken apart into."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers


@computes("Col2Im", sizes=(1, 2))
def col2im(node: TorchNode) -> Compute:
    """The sum of all windows, each at its place in an image of any number of axes."""

    def run(x: torch.Tensor, image: Any, block: Any) -> torch.Tensor:
        sizes, kernel = integers(image), integers(block)
        rank = len(sizes)
        strides, dilations = (
            node.integers(name) or [1] * rank for name in ("strides", "dilations")
        )
        pads = node.integers("pads") or [0] * 2 * rank
        whole = [size + pads[at] + pads[at + rank] for at, size in enumerate(sizes)]
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        counts = [
            (size - span) // stride + 1
            for size, span, stride in zip(whole, spans, strides, strict=True)
        ]
        columns = x.reshape(x.shape[0], -1, *kernel, *counts)
        made = x.new_zeros(*columns.shape[:2], *whole)
        for offset in product(*map(range, kernel)):
            starts = [at * step for at, step in zip(offset, dilations, strict=True)]
            place = tuple(
                slice(start, start + (count - 1) * stride + 1, stride)
                for start, count, stride in zip(starts, counts, strides, strict=True)
            )
            made[(..., *place)] += columns[(slice(None), slice(None), *offset)]
        inner = (slice(pads[at], pads[at] + size) for at, size in enumerate(sizes))
        return made[(..., *inner)]

    return run
