"""Solutions: the strategies that a search chose for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..placement.operator_node import Strategy


@dataclass(frozen=True, slots=True)
class Solution:
    """The strategies of all nodes, by name.

    `gap` says how far the cost may be above the least (0 to 1); None where that is not known.
    """

    strategies: Mapping[str, Strategy]
    gap: float | None


class PlanSearch(Protocol):
    """A search for the cheapest strategies of one graph."""

    def solve(self, price: float, deadline: float) -> Solution:
        """The strategies where a stored byte costs `price` seconds.

        `deadline` is a time of time.monotonic(). TimeoutError where nothing was found until then.
        """
        ...
