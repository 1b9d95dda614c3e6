"""Registry of rules: finds the function that says how an operator may be split.

A rule is registered for operators by name, `Domain::Name` outside ONNX's own domain. An operator
without a rule is computed whole on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..placement.factors import Factors, factor_strategies
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Placement

Strategies = Callable[[OperatorNode, NodeOperand, Placement], Iterable[Strategy]]
Localise = Callable[[LocalNode], None]
Describe = Callable[[OperatorNode], Factors]


def unchanged(local: LocalNode) -> None:
    """Leave a node as it is: it computes its part from parts of its inputs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator may be split, and how its node changes on a rank.

    `factors` describes the node, where the strategies come from factors.
    """

    strategies: Strategies
    localise: Localise = unchanged
    factors: Describe | None = None


RULES: dict[str, Rule] = {}


def no_others(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterable[Strategy]:
    """No strategies but those of the factors."""
    return ()


def factors_of(
    *operators: str, localise: Localise = unchanged, others: Strategies = no_others
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
            RULES[operator] = Rule(strategies, localise, known)
        return describe

    return register


def strategies_of(
    *operators: str, localise: Localise = unchanged
) -> Callable[[Strategies], Strategies]:
    """Register a function that gives a node's strategies itself."""

    def register(strategies: Strategies) -> Strategies:
        for operator in operators:
            RULES[operator] = Rule(strategies, localise)
        return strategies

    return register
