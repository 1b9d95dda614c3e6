"""Registry of rules: finds the function that says how an operator may be split.

A rule is registered for operators by name, `Domain::Name` outside ONNX's own domain. An operator
without a rule is computed whole on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ...source_graph.dims import fixed
from ..placement.factors import Factors, factor_strategies
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Placement, Windows
from ..placement.shared_parts import parted, windowed

Strategies = Callable[[OperatorNode, NodeOperand, Placement], Iterable[Strategy]]
Localise = Callable[[LocalNode], None]
Describe = Callable[[OperatorNode], Factors]
Condition = Callable[[OperatorNode], bool]


def unchanged(local: LocalNode) -> None:
    """Leave a node as it is: it computes its part from parts of its inputs."""


def always(node: OperatorNode) -> bool:
    """Of every node."""
    return True


def never(node: OperatorNode) -> bool:
    """Of no node."""
    return False


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator may be split, and how its node changes on a rank.

    `factors` describes the node, where the strategies come from factors. `shares` says of which
    nodes several ranks may compute the same elements, in windows: `localise` knows those, too.
    `shares_inputs` is for nodes that need windows, and which those before them may compute so.
    """

    strategies: Strategies
    localise: Localise = unchanged
    factors: Describe | None = None
    shares: Condition = never
    shares_inputs: bool = False

    def strategies_with(
        self, node: OperatorNode, operand: NodeOperand, placement: Placement
    ) -> Iterator[Strategy]:
        """The strategies of a node in which `operand` has `placement`, which may be windows."""
        if not isinstance(placement, Windows):
            yield from self.strategies(node, operand, placement)
            return
        dims = node.dims(operand)
        length = fixed(dims[placement.axis]) if dims else None
        parts = parted(placement, length) if length and self.shares(node) else None
        for one in self.strategies(node, operand, parts) if parts is not None else ():
            found = windowed(one, placement, parts)  # type: ignore[arg-type]
            if found is not None:
                yield found


RULES: dict[str, Rule] = {}


def no_others(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterable[Strategy]:
    """No strategies but those of the factors."""
    return ()


def factors_of(
    *operators: str,
    localise: Localise = unchanged,
    others: Strategies = no_others,
    shares: Condition = never,
    shares_inputs: bool = False,
) -> Callable[[Describe], Describe]:
    """Register a function that describes a node by its factors; `others` gives more strategies."""

    def register(describe: Describe) -> Describe:
        def known(node: OperatorNode) -> Factors:
            return describe(node) if node.shapes_known else Factors(())

        def strategies(
            node: OperatorNode, operand: NodeOperand, placement: Placement
        ) -> Iterable[Strategy]:
            yield from factor_strategies(node, known(node), operand, placement)
            if node.shapes_known:
                yield from others(node, operand, placement)

        for operator in operators:
            RULES[operator] = Rule(strategies, localise, known, shares, shares_inputs)
        return describe

    return register


def strategies_of(
    *operators: str, localise: Localise = unchanged, shares: Condition = never
) -> Callable[[Strategies], Strategies]:
    """Register a function that gives a node's strategies itself."""

    def register(strategies: Strategies) -> Strategies:
        for operator in operators:
            RULES[operator] = Rule(strategies, localise, shares=shares)
        return strategies

    return register
