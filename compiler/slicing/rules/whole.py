"""Whole operators: those that every rank computes whole, because a part says nothing.

Their outputs depend on all elements, or in an order, or have a size that the elements decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Placement
from .registry import strategies_of


@strategies_of(
    *"""AffineGrid BlackmanWindow CenterCropPad Compress DynamicQuantizeLinear EyeLike HammingWindow
HannWindow MelWeightMatrix NonMaxSuppression NonZero Range Unique""".split()
)
def whole(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """None but to compute the node whole."""
    yield from ()
