"""Scatters: elements written into a copy of a tensor, by their indices."""

from __future__ import annotations

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts

_REDUCTIONS = {
    "none": "TensorScatterUpdate",
    "add": "TensorScatterAdd",
    "mul": "TensorScatterMul",
    "min": "TensorScatterMin",
    "max": "TensorScatterMax",
}
_KINDS = {"none": 0, "add": 1}
"""MindSpore's numbers of reductions."""


@converts("ScatterND")
def scatter_nd(
    c: NodeConversion,
    x: MindirValue,
    indices: MindirValue,
    updates: MindirValue,
    *,
    reduction: str = "none",
) -> MindirValue:
    """Slices at the indices of several axes."""
    return c.apply(_REDUCTIONS[reduction], x, indices, updates)


@converts("ScatterElements")
def scatter_elements(
    c: NodeConversion,
    x: MindirValue,
    indices: MindirValue,
    updates: MindirValue,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> MindirValue:
    """Single elements along one axis."""
    if reduction not in _KINDS:
        raise ValueError(f"the reduction '{reduction}' is not supported")
    return c.apply("TensorScatterElements", x, indices, updates, axis, _KINDS[reduction])
