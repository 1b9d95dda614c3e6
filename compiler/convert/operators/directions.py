"""Directions of recurrent layers: their states, their parts of weights, and their joint outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .shape import size_of, sliced


def joined(c: NodeConversion, parts: Sequence[tuple[MindirValue, ...]]) -> list[MindirValue]:
    """The outputs with an axis of directions, and the last states of all directions."""
    sequences = []
    for outputs, *_ in parts:
        steps, batch, size = outputs.shape
        kind = TensorType(outputs.dtype, (steps, 1, batch, size))
        sequences.append(c.apply("ExpandDims", outputs, 1, type=kind))
    found = [_along(c, sequences, 1)]
    for index in range(1, len(parts[0])):
        found.append(_along(c, [one[index] for one in parts], 0))
    return found


def _along(c: NodeConversion, values: Sequence[MindirValue], axis: int) -> MindirValue:
    if len(values) == 1:
        return values[0]
    shape = list(values[0].shape)
    shape[axis] = sum(one.shape[axis] for one in values)
    kind = TensorType(values[0].dtype, tuple(shape))
    return c.apply("Concat", c.builder.tuple(values), axis, type=kind)


def first_state(
    c: NodeConversion,
    given: MindirValue | None,
    index: int,
    x: MindirValue,
    recurrence: MindirValue,
) -> MindirValue:
    """The first state of one direction, 0 by default: [1, batch, size]."""
    if given is not None:
        return ranged(c, given, {0: (index, index + 1)})
    batch = x.shape[1]
    shape = (1, batch, recurrence.shape[2])
    if batch >= 0:
        return c.builder.constant(np.zeros(shape, recurrence.dtype))
    sizes = c.scalars([1, size_of(c, x, 1), shape[2]])
    kind = TensorType(recurrence.dtype, shape)
    number = dtypes.to_type_id(recurrence.dtype)
    return c.apply("FillScalar", sizes, 0.0, number, type=kind)


def ranged(c: NodeConversion, x: MindirValue, ranges: dict[int, tuple[int, int]]) -> MindirValue:
    """Some elements along some axes."""
    shape = list(x.shape)
    for axis, (begin, end) in ranges.items():
        shape[axis] = end - begin
    if tuple(shape) == x.shape:
        return x
    steps = {axis: (begin, end, 1) for axis, (begin, end) in ranges.items()}
    return sliced(c, x, steps, TensorType(x.dtype, tuple(shape)))


def directions(direction: str) -> list[bool]:
    """For each direction whether it goes backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def require_one_length(x: MindirValue, lengths: MindirValue | None) -> None:
    """ValueError for sequences of several lengths."""
    if lengths is not None and np.any(np.asarray(lengths.constant) != x.shape[0]):
        raise ValueError("sequences of several lengths are not supported")
