"""Factors: describe the axes of a node that are split together.

A rule gets a placement of one operand, and gives the strategies that it fits. Most rules are
factors: a factor names the axes of inputs and outputs that run over the same index, as one
letter of an einsum does. All of them are split alike. An output without the axis of a reducing
factor becomes a Partial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..graph.dims import fixed
from .operator_node import NodeOperand, OperatorNode, Strategy
from .placements import WHOLE, Partial, Placement, Split, split


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that a factor runs over; `unit` of its elements belong to one step of the factor."""

    axis: int
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Factor:
    """The axes of inputs and outputs, by position, that run over one index.

    `reduction` says what an output without the axis becomes: a Partial ("sum", "max"). Without
    one, outputs that lack the axis do not depend on it and stay whole.
    """

    inputs: Mapping[int, Axis]
    outputs: Mapping[int, Axis]
    reduction: str = ""

    def axis(self, operand: NodeOperand) -> Axis | None:
        """The factor's axis of an operand."""
        return (self.outputs if operand.is_output else self.inputs).get(operand.index)


@dataclass(frozen=True, slots=True)
class Factors:
    """All factors of a node, and the inputs that it is linear in.

    Each entry of `linear` is a set of inputs: where exactly these are Partial sums, all outputs
    are.
    """

    factors: Sequence[Factor]
    linear: Sequence[tuple[int, ...]] = ()
    reductions: Sequence[str] = ("sum",)


def factor(inputs: Mapping[int, int], outputs: Mapping[int, int], reduction: str = "") -> Factor:
    """A factor whose axes all have one element for each step."""
    return Factor(
        {i: Axis(axis) for i, axis in inputs.items()},
        {i: Axis(axis) for i, axis in outputs.items()},
        reduction,
    )


def factor_strategies(
    node: OperatorNode, factors: Factors, operand: NodeOperand, placement: Placement
) -> Iterator[Strategy]:
    """The strategies of a node with `factors` in which `operand` has `placement`."""
    if isinstance(placement, Partial):
        yield from _linear(node, factors, operand, placement)
    elif isinstance(placement, Split):
        for one in factors.factors:
            own = one.axis(operand)
            if own is not None and own.axis == placement.axis:
                found = _split_all(node, one, own, placement)
                if found is not None:
                    yield found


def _linear(
    node: OperatorNode, factors: Factors, operand: NodeOperand, placement: Partial
) -> Iterator[Strategy]:
    if placement.reduction not in factors.reductions:
        return
    for inputs in factors.linear:
        if operand.is_output or operand.index in inputs:
            yield Strategy(
                tuple(placement if i in inputs else WHOLE for i in range(len(node.inputs))),
                (placement,) * len(node.outputs),
            )


def _split_all(node: OperatorNode, one: Factor, own: Axis, placement: Split) -> Strategy | None:
    """The strategy in which all axes of a factor are split alike; None where one cannot be."""
    inputs: dict[int, Placement] = {}
    outputs: dict[int, Placement] = {}
    for is_output, axes, found in ((False, one.inputs, inputs), (True, one.outputs, outputs)):
        for index, axis in axes.items():
            dims = node.dims(NodeOperand(index, is_output))
            part = rescaled(placement, axis.axis, own.unit, axis.unit)
            if part is None or dims is None or fixed(dims[axis.axis]) != part.length:
                return None
            found[index] = part
    if one.reduction:
        for index in range(len(node.outputs)):
            outputs.setdefault(index, Partial(one.reduction))
    return node.strategy(inputs, outputs)


def rescaled(placement: Split, axis: int, unit: int, other: int) -> Split | None:
    """A split in units of `unit` elements on an axis with units of `other`; None if it cuts one."""
    if any(bound * other % unit for bound in placement.bounds):
        if any(ratio * other % unit for ratio in placement.ratios):
            return None
        ratios = [ratio * other // unit for ratio in placement.ratios]
        return split(axis, placement.bounds, ratios)
    bounds = [bound * other // unit for bound in placement.bounds]
    return split(axis, bounds, placement.ratios)


def unique(strategies: Iterable[Strategy]) -> list[Strategy]:
    """Strategies without repetitions, in their order."""
    return list(dict.fromkeys(strategies))
