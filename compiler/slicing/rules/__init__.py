"""Rules: say how the inputs and outputs of an operator may be split, a module for each family."""

from . import (
    attention,
    block_quantised,
    contraction,
    contrib_attention,
    contrib_fused,
    cutting,
    elementwise,
    experts,
    grouped_query,
    index,
    joining,
    normalisation,
    quantised,
    recurrent,
    reduce,
    repeating,
    scatter,
    spatial,
    view,
    whole,
)
from .registry import RULES, Rule, unchanged

FAMILIES = (
    attention,
    block_quantised,
    contraction,
    contrib_attention,
    contrib_fused,
    cutting,
    elementwise,
    experts,
    grouped_query,
    index,
    joining,
    normalisation,
    quantised,
    recurrent,
    reduce,
    repeating,
    scatter,
    spatial,
    view,
    whole,
)

__all__ = ["FAMILIES", "RULES", "Rule", "unchanged"]
