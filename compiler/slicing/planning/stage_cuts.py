"""Stage cuts: divides a chain of nodes so that its largest stage is smallest.

A stage is a stretch of the chain. It costs the sum of its nodes, each resource that they use once
(a weight, or a node that every stage computes for itself), and what crosses its two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_SLACK = 1.01
"""How much larger than necessary the largest stage may be where less crosses then."""

Row = np.ndarray


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of nodes with their costs.

    `uses` has (position, resource) pairs, `resources` the cost of each resource. `crossing` has for
    each number of nodes the cost of a cut behind so many; inf where none is possible.
    """

    nodes: Sequence[float]
    uses: Sequence[tuple[int, int]]
    resources: Sequence[float]
    crossing: Sequence[float]

    def rows(self) -> Iterator[Row]:
        """For each start, the costs of the stages that begin there, by their lengths less one."""
        nodes, crossing = np.asarray(self.nodes, float), np.asarray(self.crossing, float)
        ordered = sorted(set(self.uses))
        positions = np.array([position for position, _ in ordered], int)
        costs = np.array([self.resources[resource] for _, resource in ordered], float)
        before, last = np.full(len(ordered), -1), dict[int, int]()
        for index, (position, resource) in enumerate(ordered):
            before[index] = last.get(resource, -1)
            last[resource] = position
        for start in range(len(nodes)):
            first = int(np.searchsorted(positions, start))
            own = np.where(before[first:] < start, costs[first:], 0.0)
            added = np.bincount(positions[first:] - start, own, len(nodes) - start)
            yield np.cumsum(nodes[start:] + added) + crossing[start] + crossing[start + 1 :]


def best_cuts(chain: Chain, stages: int) -> list[int] | None:
    """The positions behind which the chain is cut; None where it cannot be.

    The cost of the largest stage is the smallest possible, or up to 1 % more where less crosses
    then.
    """
    rows = list(chain.rows())
    crossing = np.asarray(chain.crossing, float)
    largest = _search(rows, stages, lambda best, start, row: np.maximum(best, row))
    if largest is None:
        return None
    cuts, cost = largest
    limit = cost * _SLACK

    def less(best: float, start: int, row: Row) -> Row:
        return np.where(row <= limit, best + crossing[start], np.inf)

    found = _search(rows, stages, less)
    return cuts if found is None else found[0]


def _search(
    rows: Sequence[Row], stages: int, combined: Callable[[float, int, Row], Row]
) -> tuple[list[int], float] | None:
    """The cuts of the least cost: `combined` adds a last stage, of any end, to the best before."""
    count = len(rows)
    best = np.full((stages + 1, count + 1), np.inf)
    start_of = np.zeros((stages + 1, count + 1), int)
    best[0, 0] = 0.0
    for start, row in enumerate(rows):
        for stage in range(1, stages + 1):
            if np.isfinite(best[stage - 1, start]):
                cost = combined(best[stage - 1, start], start, row)
                better = cost < best[stage, start + 1 :]
                best[stage, start + 1 :][better] = cost[better]
                start_of[stage, start + 1 :][better] = start
    if not np.isfinite(best[stages, count]):
        return None
    cuts, end = [], count
    for stage in range(stages, 1, -1):
        end = int(start_of[stage, end])
        cuts.append(end)
    return cuts[::-1], float(best[stages, count])
