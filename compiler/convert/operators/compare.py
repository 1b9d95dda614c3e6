"""Comparisons: booleans of elements, and choices by them."""

from __future__ import annotations

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Equal", primitive="Equal")
@converts("Greater", primitive="Greater")
@converts("GreaterOrEqual", primitive="GreaterEqual")
@converts("Less", primitive="Less")
@converts("LessOrEqual", primitive="LessEqual")
@converts("And", primitive="LogicalAnd")
@converts("Or", primitive="LogicalOr")
@converts("Xor", primitive="LogicalXor")
def comparison(c: NodeConversion, a: MindirValue, b: MindirValue, *, primitive: str) -> MindirValue:
    """Both sides are broadcast."""
    return c.apply(primitive, a, b)


@converts("Not", primitive="LogicalNot")
@converts("IsNaN", primitive="IsNan")
def predicate(c: NodeConversion, x: MindirValue, *, primitive: str) -> MindirValue:
    """Of one operand."""
    return c.apply(primitive, x)


@converts("Where")
def where(c: NodeConversion, condition: MindirValue, a: MindirValue, b: MindirValue) -> MindirValue:
    """The one or the other element."""
    return c.apply("Select", condition, a, b)


@converts("Cast")
def cast(
    c: NodeConversion, x: MindirValue, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> MindirValue:
    """Another dtype."""
    return cast_to(c, x, c.type)


def cast_to(c: NodeConversion, x: MindirValue, kind: TensorType) -> MindirValue:
    """A value in the dtype of `kind`."""
    if x.dtype == kind.dtype:
        return x
    return c.apply("Cast", x, dtypes.to_type_id(kind.dtype), type=kind)
