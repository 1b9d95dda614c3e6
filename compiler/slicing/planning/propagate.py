"""Propagation: the placements that each value may have, and the strategies of each node.

Every axis that can be split is tried. From there, rules carry a split to the neighbours, forwards
and backwards, until nothing new comes. A split that respects heads enters at the value whose axis
counts heads, and so reaches the projections with the right bounds.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ....comm.errors import UsageError
from ...source_graph.dims import fixed, usual
from ...source_graph.source_graph import SourceGraph, operator
from ..annotation.fixed_nodes import FREE, FixedNodes, describe
from ..placement.factors import stepped_axes
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy, operator_nodes
from ..placement.placements import (
    WHOLE,
    Partial,
    Placement,
    Split,
    Windows,
    even_split,
    scaled,
    split,
)
from ..rules import RULES

_SEGMENTS = 8
"""Segments of a split. Fused values have two to four; more come of splits inside each head."""

_MOST = 48
"""Placements of one value. Later ones are dropped: a graph of odd reshapes must not explode."""

_SMALL = 1 << 16
"""Elements of integers and flags, such as shapes, ids and masks, that are not worth a split."""

_INDICES = (ir.DataType.INT32, ir.DataType.INT64)
"""Integers of these types count or name something; those of 8 bits are quantised data."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The strategies of each node, by its name; the first is to compute it whole on every rank.

    `unknown` names the operators without a rule.
    """

    strategies: Mapping[str, Sequence[Strategy]]
    nodes: Mapping[str, OperatorNode]
    unknown: Sequence[str]


def propagate(
    graph: SourceGraph,
    ranks: int,
    shares: Sequence[Sequence[float]] = (),
    fixed_by: FixedNodes = FREE,
) -> Candidates:
    """The candidates of all nodes for `ranks` ranks.

    Axes without heads may also be split in any of the proportions `shares`. One rank, as in a
    pipeline of single ranks, has all of everything. UsageError names a node whose rule does not
    allow what `fixed_by` prescribes.
    """
    search = _Search(graph, ranks)
    if ranks == 1:
        return search.candidates(fixed_by)
    search.enter_fixed(fixed_by)
    for name, dims in graph.dims.items():
        for axis, dim in enumerate(dims):
            length = fixed(dim)
            if length is not None and length >= ranks:
                for part in _seeds(axis, length, ranks, shares):
                    search.enter(name, part)
    search.enter_steps(ranks, shares)
    search.run()
    return search.candidates(fixed_by)


def _seeds(
    axis: int, length: int, ranks: int, shares: Sequence[Sequence[float]]
) -> Iterator[Split]:
    even = even_split(axis, length, ranks)
    if even is not None:
        yield even
    for some in shares if length >= 4 * ranks else ():
        uneven = split(axis, scaled(length, some))
        if uneven is not None:
            yield uneven


class _Search:
    """The work list of (value, placement) pairs, and what came of them."""

    def __init__(self, graph: SourceGraph, ranks: int) -> None:
        self._nodes = operator_nodes(graph, ranks)
        self._found: dict[str, dict[Placement, None]] = defaultdict(dict)
        self._strategies: dict[str, dict[Strategy, None]] = {
            name: {node.whole: None} for name, node in self._nodes.items()
        }
        self._uses: dict[str, list[tuple[str, NodeOperand]]] = defaultdict(list)
        self._queue: deque[tuple[str, Placement]] = deque()
        for name, node in self._nodes.items():
            for is_output, values in ((False, node.node.inputs), (True, node.node.outputs)):
                for index, value in enumerate(values):
                    if value is not None:
                        self._uses[str(value.name)].append((name, NodeOperand(index, is_output)))

    def enter(self, value: str, placement: Placement) -> None:
        """Note a placement of a value that a node can make, unless it is known."""
        found = self._found[value]
        if placement == WHOLE:
            return
        if placement not in found and len(found) < _MOST:
            found[placement] = None
            self._queue.append((value, placement))

    def enter_fixed(self, fixed_by: FixedNodes) -> None:
        """Enter the placements that annotations prescribe."""
        for name, prescribed in fixed_by.nodes.items():
            node = self._nodes[name].node
            for one, placement in prescribed.items():
                value = (node.outputs if one.is_output else node.inputs)[one.index]
                if value is not None:
                    self.enter(str(value.name), placement)

    def enter_steps(self, ranks: int, shares: Sequence[Sequence[float]]) -> None:
        """Enter the splits of axes whose steps, such as heads, no other value's axis counts."""
        for node in self._nodes.values():
            rule = RULES.get(operator(node.node))
            if rule is None or rule.factors is None or not node.shapes_known:
                continue
            for operand, axis, count in stepped_axes(node, rule.factors(node)):
                values = node.node.outputs if operand.is_output else node.node.inputs
                for steps in _seeds(0, count, ranks, shares):
                    part = axis.split(steps)
                    if part is not None:
                        self.enter(str(values[operand.index].name), part)  # type: ignore[union-attr]

    def run(self) -> None:
        """Ask the rules until nothing new comes."""
        while self._queue:
            value, placement = self._queue.popleft()
            for name, operand in self._uses[value]:
                node = self._nodes[name]
                rule = RULES.get(operator(node.node))
                if rule is not None and not _has_graphs(node.node):
                    for strategy in rule.strategies_with(node, operand, placement):
                        self._add(name, node, strategy, rule.shares_inputs or rule.shares(node))

    def _add(self, name: str, node: OperatorNode, strategy: Strategy, shares: bool) -> None:
        if strategy in self._strategies[name] or not _fits(node, strategy) or _is_idle(node):
            return
        self._strategies[name][strategy] = None
        pairs = [
            *zip(node.node.inputs, strategy.inputs, strict=True),
            *zip(node.node.outputs, strategy.outputs, strict=True),
        ]
        for value, placement in pairs:
            if value is not None and (shares or not isinstance(placement, Windows)):
                self.enter(str(value.name), placement)

    def candidates(self, fixed_by: FixedNodes) -> Candidates:
        """The strategies that were found, and the operators without a rule."""
        unknown = {
            operator(node.node)
            for node in self._nodes.values()
            if operator(node.node) not in RULES and not _has_graphs(node.node)
        }
        strategies = {
            name: [one for one in found if fixed_by.allows(name, one)]
            for name, found in self._strategies.items()
        }
        refused = next((name for name, left in strategies.items() if not left), None)
        if refused is not None:
            raise UsageError(
                f"{fixed_by.path}: node {refused} ({operator(self._nodes[refused].node)}): its "
                f"annotation has {describe(fixed_by.nodes[refused])}, which the rule of the "
                "operator does not allow."
            )
        return Candidates(strategies, self._nodes, sorted(unknown))


def _has_graphs(node: ir.Node) -> bool:
    return any(
        one.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for one in node.attributes.values()
    )


def _fits(node: OperatorNode, strategy: Strategy) -> bool:
    """Whether every split has the length of its axis: a guard against a wrong rule."""
    pairs = [
        *zip(node.inputs, strategy.inputs, strict=True),
        *zip(node.outputs, strategy.outputs, strict=True),
    ]
    return all(
        dims is not None
        and placement.axis < len(dims)
        and fixed(dims[placement.axis]) == placement.length
        and len(placement.ratios) <= _SEGMENTS
        for dims, placement in pairs
        if isinstance(placement, Split)
    ) and not any(dims is None for dims, one in pairs if isinstance(one, Partial))


def _is_idle(node: OperatorNode) -> bool:
    """Whether a node makes few integers or flags of others, which each rank may well have whole."""
    values = [*zip(node.node.inputs, node.inputs, strict=True)]
    values += zip(node.node.outputs, node.outputs, strict=True)
    return all(
        value is None
        or not value.name
        or value.dtype is not None
        and (value.dtype in _INDICES or value.dtype == ir.DataType.BOOL)
        and dims is not None
        and math.prod(usual(dims)) <= _SMALL
        for value, dims in values
    )
