"""Runs of sizes: numbers and run-time sizes in as few pieces as give one vector.

At run time each piece is a node, which takes as long as a small matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .tensor import OnnxTensor, Value


@dataclass(frozen=True, slots=True)
class AxisSizes:
    """The sizes of the axes of a tensor from `start` to before `end`."""

    tensor: OnnxTensor
    start: int
    end: int


Run: TypeAlias = "tuple[int, ...] | AxisSizes | OnnxTensor"
AxisOf: TypeAlias = Callable[[Value], AxisSizes | None]


def runs(values: Sequence[Value], axis_of: AxisOf) -> Iterator[Run]:
    """`values` in runs: numbers, sizes of neighbouring axes of one tensor, other scalar tensors.

    `axis_of` gives the tensor and the axis whose size a value is, None for other values.
    """
    index = 0
    while index < len(values):
        run = _numbers(values[index:]) or _sizes(values[index:], axis_of) or values[index]
        yield run
        index += _length(run)


def _length(run: Run) -> int:
    if isinstance(run, OnnxTensor):
        return 1
    return run.end - run.start if isinstance(run, AxisSizes) else len(run)


def _numbers(values: Sequence[Value]) -> tuple[int, ...]:
    end = next((i for i, value in enumerate(values) if not isinstance(value, int)), len(values))
    return tuple(values[:end])


def _sizes(values: Sequence[Value], axis_of: AxisOf) -> AxisSizes | None:
    first = axis_of(values[0])
    if first is None:
        return None
    end = first.end
    for value in values[1:]:
        if axis_of(value) != AxisSizes(first.tensor, end, end + 1):
            break
        end += 1
    return AxisSizes(first.tensor, first.start, end)
