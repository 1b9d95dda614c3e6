"""Factors: describe the axes of a node that are split together.

A rule gets a placement of one operand, and gives the strategies that it fits. Most rules are
factors: a factor names the axes of inputs and outputs that run over the same index, as one
letter of an einsum does. All of them are split alike. An output without the axis of a reducing
factor becomes a Partial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...source_graph.dims import fixed
from .operator_node import NodeOperand, OperatorNode, Strategy
from .placements import WHOLE, Partial, Placement, Split, split


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that a factor runs over; `unit` of its elements belong to one step of the factor.

    The axis of fused values is a row of segments: a step has `unit * segments[k]` elements of
    segment k. No step is ever cut in two.
    """

    axis: int
    unit: int = 1
    segments: tuple[int, ...] = (1,)

    @property
    def step(self) -> int:
        """The elements of one step."""
        return self.unit * sum(self.segments)

    def steps_of(self, placement: Split) -> Split | None:
        """A split of this axis, counted in steps; None if it cuts one."""
        if self.segments == (1,):
            return _in_units(placement, self.unit)
        step = split(0, (0, self.unit), self.segments)
        if step is None or placement.ratios != step.ratios:
            return None
        return _in_units(Split(0, placement.bounds), step.bounds[-1])

    def split(self, steps: Split) -> Split | None:
        """The split of this axis whose parts have these steps."""
        if self.segments == (1,):
            return split(self.axis, [self.unit * bound for bound in steps.bounds], steps.ratios)
        if steps.ratios != (1,):
            return None
        return split(self.axis, [self.unit * bound for bound in steps.bounds], self.segments)


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
    steps = own.steps_of(placement)
    if steps is None:
        return None
    inputs: dict[int, Placement] = {}
    outputs: dict[int, Placement] = {}
    for is_output, axes, found in ((False, one.inputs, inputs), (True, one.outputs, outputs)):
        for index, axis in axes.items():
            dims = node.dims(NodeOperand(index, is_output))
            part = axis.split(steps)
            if part is None or dims is None or fixed(dims[axis.axis]) != part.length:
                return None
            found[index] = part
    if one.reduction:
        for index in range(len(node.outputs)):
            outputs.setdefault(index, Partial(one.reduction))
    return node.strategy(inputs, outputs)


def _in_units(placement: Split, unit: int) -> Split | None:
    """A split counted in units of `unit` elements; None if it cuts one."""
    if any(bound % unit for bound in placement.bounds):
        return None
    return split(0, [bound // unit for bound in placement.bounds], placement.ratios)


def stepped_axes(node: OperatorNode, factors: Factors) -> Iterator[tuple[NodeOperand, Axis, int]]:
    """An operand, its axis and the number of steps, for each factor whose steps may not be cut."""
    for one in factors.factors:
        for is_output, axes in ((False, one.inputs), (True, one.outputs)):
            for index, axis in axes.items():
                operand = NodeOperand(index, is_output)
                length = fixed((node.dims(operand) or {axis.axis: (0, 1)})[axis.axis])
                if axis.step > 1 and length is not None:
                    yield operand, axis, length // axis.step
