"""Axis factors: the sizes that each axis is made of, once a Reshape has put several into one.

Behind a Reshape of [4, 16, 64] to [64, 64] the first axis still is 4 times 16. A later Reshape to
[4, -1, 64] parts it again, and its 4 is the same 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from .reshape_axes import Shape, groupings
from .resized_node import ResizedNode

Factors = tuple[tuple[int, int], ...]
"""The factors of one axis: the size as exported, and as asked for."""

_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}


class AxisFactors:
    """The factors of the axes of all values so far. Only axes whose sizes change have any."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Factors]] = {}

    def of(self, node: ResizedNode) -> tuple[Shape, Shape] | None:
        """The shapes of a node's first input with each axis as its factors."""
        before, after = node.before(0), node.after(0)
        if before is None or after is None:
            return None
        whole = [one for axis in self._axes(node.name(0), before, after) for one in axis]
        return tuple(old for old, _ in whole), tuple(new for _, new in whole)

    def add(self, node: ResizedNode) -> None:
        """Take the outputs of a node, whose inputs are known."""
        for name, before, after in node.outputs():
            if node.operator in _VIEWS:
                found = self._viewed(node, before)
            elif node.operator == "Transpose":
                found = self._transposed(node)
            else:
                found = self._kept(node, before, after)
            known = {axis: one for axis, one in found.items() if len(one) > 1}
            if known:
                self._known[name] = known

    def _axes(self, name: str, before: Shape, after: Shape) -> list[Factors]:
        known = self._known.get(name, {})
        sizes = enumerate(zip(before, after, strict=True))
        return [known.get(axis, (pair,)) for axis, pair in sizes]

    def _viewed(self, node: ResizedNode, target: Shape) -> dict[int, Factors]:
        """Several axes that become one are its factors."""
        found = self.of(node)
        if found is None:
            return {}
        pairs = list(zip(*found, strict=True))
        ways = groupings(found[0], target)
        return {
            targets[0]: tuple(pairs[axis] for axis in sources if pairs[axis] != (1, 1))
            for sources, targets in (ways[0] if ways else [])
            if len(targets) == 1
        }

    def _transposed(self, node: ResizedNode) -> dict[int, Factors]:
        shape = node.before(0) or ()
        order = node.ints("perm") or tuple(reversed(range(len(shape))))
        known = self._known.get(node.name(0), {})
        return {axis: known[source] for axis, source in enumerate(order) if source in known}

    def _kept(self, node: ResizedNode, before: Shape, after: Shape) -> dict[int, Factors]:
        """An axis that changes as that of an input does, at the same place, is that axis."""
        found: dict[int, Factors] = {}
        for index in range(node.count):
            old, new = node.before(index), node.after(index)
            if old is None or new is None or len(old) != len(before):
                continue
            for axis, factors in self._known.get(node.name(index), {}).items():
                if (old[axis], new[axis]) == (before[axis], after[axis]) and _changes(factors):
                    found.setdefault(axis, factors)
        return found


def _changes(factors: Sequence[tuple[int, int]]) -> bool:
    return any(old != new for old, new in factors)
