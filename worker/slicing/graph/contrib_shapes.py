"""Contributed operators' shapes: compute the shapes of outputs in the domain com.microsoft.

ONNX knows no schema of these. Source: ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

Shape = tuple[int, ...]
ShapesOf = Callable[[ir.Node, Mapping[str, Shape]], Sequence[Shape | None]]


def _same(node: ir.Node, shapes: Mapping[str, Shape]) -> Sequence[Shape | None]:
    """One output, shaped as the first input."""
    first = node.inputs[0]
    return [shapes[first.name or ""]] if first is not None else []


CONTRIB_SHAPES: Mapping[str, ShapesOf] = {
    "Gelu": _same,
    "FastGelu": _same,
    "QuickGelu": _same,
    "BiasGelu": _same,
    "RotaryEmbedding": _same,
}
