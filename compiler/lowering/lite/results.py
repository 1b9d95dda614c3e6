"""Results of .ms nodes: MindIR's primitives give several values of which a node may keep one."""

from __future__ import annotations

from ...element_types.value_types import TupleType
from ..builder import Builder, Value, lowering_of


def kept(b: Builder, values: Value) -> Value:
    """As many of the values as the node has results; the only one by itself."""
    if not isinstance(values, tuple):
        return values
    kind = b.result_type
    if isinstance(kind, TupleType) and kind.items is not None:
        return values[: len(kind.items)]
    return values[0]


def as_mindir(b: Builder, primitive: str, *inputs: Value, **attributes: Value) -> Value:
    """The result of one of MindIR's primitives."""
    return kept(b, lowering_of(primitive).lower(b, list(inputs), attributes))


def result_count(b: Builder, default: int) -> int:
    """How many results the node has; the default for a single one."""
    kind = b.result_type
    return len(kind.items) if isinstance(kind, TupleType) and kind.items else default
