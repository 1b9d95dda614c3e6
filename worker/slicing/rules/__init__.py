"""Rules: say how the inputs and outputs of an operator may be split, a module for each family."""

from . import contraction, elementwise, index, joining, normalisation, reduce, view
from .registry import RULES, Rule, unchanged

FAMILIES = (contraction, elementwise, index, joining, normalisation, reduce, view)

__all__ = ["FAMILIES", "RULES", "Rule", "unchanged"]
