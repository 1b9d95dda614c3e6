"""Rules: say how the inputs and outputs of an operator may be split, a module for each family."""

from . import (
    attention,
    contraction,
    contrib_attention,
    contrib_fused,
    cutting,
    elementwise,
    index,
    joining,
    normalisation,
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
    contraction,
    contrib_attention,
    contrib_fused,
    cutting,
    elementwise,
    index,
    joining,
    normalisation,
    recurrent,
    reduce,
    repeating,
    scatter,
    spatial,
    view,
    whole,
)

__all__ = ["FAMILIES", "RULES", "Rule", "unchanged"]
