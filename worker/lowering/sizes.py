"""Numbers and run-time sizes as one 1-d tensor, in few nodes: at run time each takes as long as a small product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..mindir.graph import TensorType
from .tensor import Tensor, Value

if TYPE_CHECKING:
    from .builder import Builder

_INT64 = np.dtype(np.int64)


def pieces(b: Builder, values: Sequence[Value]) -> list[Tensor]:
    """1-d int64 tensors that joined are `values`, numbers and scalar tensors.

    Numbers side by side are one constant, the sizes of axes side by side of one tensor are one Shape.
    """
    found: list[Tensor] = []
    index = 0
    while index < len(values):
        count, piece = _numbers(b, values[index:]) or _sizes(b, values[index:]) or (1, _alone(b, values[index]))
        found.append(piece)
        index += count
    return found


def _numbers(b: Builder, values: Sequence[Value]) -> tuple[int, Tensor] | None:
    count = next((i for i, value in enumerate(values) if not isinstance(value, int)), len(values))
    return (count, b.ints(values[:count])) if count else None


def _sizes(b: Builder, values: Sequence[Value]) -> tuple[int, Tensor] | None:
    first = _origin(b, values[0])
    if first is None:
        return None
    x, axis = first
    count = 1
    while count < len(values) and _origin(b, values[count]) == (x, axis + count):
        count += 1
    kind = TensorType(_INT64, (count,))
    return count, b.op("Shape", x, start=axis, end=axis + count, type=kind)


def _origin(b: Builder, value: Value) -> tuple[Tensor, int] | None:
    """The tensor and the axis whose size a value is, if it was taken from a Shape."""
    gather = b.made(value, "Gather")
    shape = b.made(gather.inputs[0], "Shape") if gather else None
    axis = b.number(gather.inputs[1]) if gather else None
    if shape is None or axis is None or axis < 0 or shape.node.attribute or shape.inputs[0] is None:
        return None
    return shape.inputs[0], axis


def _alone(b: Builder, value: Value) -> Tensor:
    one = TensorType(_INT64, (1,))
    result: Tensor = b.op("Reshape", b.cast(value, one.dtype), b.ints((1,)), type=one)
    return result
