"""Solutions: the strategies that a search chose for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..placement.operator_node import Strategy


@dataclass(frozen=True, slots=True)
class Solution:
    """The strategies of all nodes, by name.

    `least` is a bound: no plan takes fewer seconds, with the price of what it stores beyond the
    least; None where no bound is known.
    """

    strategies: Mapping[str, Strategy]
    least: float | None = None


@dataclass(frozen=True, slots=True)
class StorageLimit:
    """The bytes of weights that a rank may store; vectors count if `vectors` says so."""

    nbytes: int
    vectors: bool
