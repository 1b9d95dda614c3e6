"""Gathers: elements by their indices."""

from __future__ import annotations

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Gather")
def gather(
    c: NodeConversion, x: MindirValue, indices: MindirValue, *, axis: int = 0
) -> MindirValue:
    """Slices along one axis."""
    return c.apply("Gather", x, indices, axis, 0)


@converts("GatherElements")
def gather_elements(
    c: NodeConversion, x: MindirValue, indices: MindirValue, *, axis: int = 0
) -> MindirValue:
    """Single elements along one axis."""
    return c.apply("GatherD", x, axis, indices)


@converts("GatherND")
def gather_nd(
    c: NodeConversion, x: MindirValue, indices: MindirValue, *, batch_dims: int = 0
) -> MindirValue:
    """Slices by the indices of several axes."""
    if batch_dims:
        raise ValueError("batch_dims are not supported")
    return c.apply("GatherNd", x, indices)
