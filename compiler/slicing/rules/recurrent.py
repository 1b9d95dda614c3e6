"""Recurrent rules: split recurrent layers by batch and by direction."""

from __future__ import annotations

from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split
from .registry import factors_of

_DIRECTIONS = 2


def _own_direction(local: LocalNode) -> None:
    """Run one direction of two: the first rank forward, the second backward."""
    weights = local.strategy.inputs[1]
    if not isinstance(weights, Split):
        return
    local.set_text("direction", ("forward", "reverse")[local.rank])
    found = local.node.attributes.get("activations")
    if found is not None:
        names = list(found.as_strings())
        half = len(names) // _DIRECTIONS
        local.set_texts("activations", names[half * local.rank : half * (local.rank + 1)])


@factors_of("LSTM", "GRU", "RNN", localise=_own_direction)
def recurrent(node: OperatorNode) -> Factors:
    """By batch, and by direction on two ranks."""
    if node.int_of("layout"):
        return Factors(())
    states = [index for index in (5, 6) if node.has_input(index)]
    lengths = {4: Axis(0)} if node.has_input(4) else {}
    outputs = [index for index, dims in enumerate(node.outputs) if dims]
    batch = Factor(
        {0: Axis(1), **lengths, **{index: Axis(1) for index in states}},
        {index: Axis(1 if index else 2) for index in outputs},
    )
    constants = ("activation_alpha", "activation_beta")
    if node.ranks != _DIRECTIONS or any(name in node.node.attributes for name in constants):
        return Factors([batch])
    directed = [index for index in (1, 2, 3, 5, 6, 7) if node.has_input(index)]
    by_direction = Factor(
        {index: Axis(0) for index in directed},
        {index: Axis(0 if index else 1) for index in outputs},
    )
    return Factors([batch, by_direction])
