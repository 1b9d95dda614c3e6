"""Bits of integers: and, or, exclusive or, not, and moves."""

from __future__ import annotations

import numpy as np

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("BitwiseAnd", primitive="BitwiseAnd")
@converts("BitwiseOr", primitive="BitwiseOr")
@converts("BitwiseXor", primitive="BitwiseXor")
def bitwise(c: NodeConversion, a: MindirValue, b: MindirValue, *, primitive: str) -> MindirValue:
    """Both sides are broadcast."""
    return c.apply(primitive, a, b)


@converts("BitwiseNot")
def inverted(c: NodeConversion, x: MindirValue) -> MindirValue:
    """The exclusive or with ones."""
    return c.apply("BitwiseXor", x, np.asarray(np.invert(np.zeros((), x.dtype))))


@converts("BitShift")
def moved(c: NodeConversion, x: MindirValue, places: MindirValue, *, direction: str) -> MindirValue:
    """To the left or to the right."""
    return c.apply("LeftShift" if direction == "LEFT" else "RightShift", x, places)
