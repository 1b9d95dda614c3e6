"""Right sizes: finds open dimensions that have only one size with which a model can run.

An exporter may leave the size of a head open, though the weights fix it. Shapes are computed for a
few sizes; where a node needs two sizes to be equal that are not, the equation is solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ...comm.errors import InputError
from ..source_graph.open_dimensions import Sizes
from ..source_graph.shape_run import ShapeRun
from .equations import differs, solved, sum_of
from .probes import COUNT, Numbers, numbers_of, pairs, shape_run
from .size_pair import SizePair


@dataclass(frozen=True, slots=True)
class RightSize:
    """The only size of an open dimension, and the node that takes no other.

    `or_one` says that it takes 1 as well, as something that is repeated.
    """

    name: str
    size: int
    node: str
    or_one: bool = False

    def __str__(self) -> str:
        other = " or 1" if self.or_one else ""
        return f"dimension {self.name} is {self.size}{other}: {self.node} takes no other size"

    def takes(self, size: int) -> bool:
        """Whether the model can run with this size."""
        return size == self.size or self.or_one and size == 1


Sums = dict[str, tuple[str, ...]]
"""The dimensions that a dimension is the sum of."""


@dataclass(frozen=True, slots=True)
class RightSizes:
    """The right sizes of open dimensions, and dimensions that are sums of others.

    `likely` has sums that are usual, though the model runs with others.
    """

    fixed: dict[str, RightSize] = field(default_factory=dict)
    sums: Sums = field(default_factory=dict)
    likely: Sums = field(default_factory=dict)

    @property
    def exact(self) -> dict[str, int]:
        """The sizes that have no alternative."""
        return {name: one.size for name, one in self.fixed.items() if not one.or_one}

    def completed(self, sizes: Sizes) -> dict[str, int]:
        """Sizes with those of the dimensions that are sums of others."""
        return _summed(self.sums, {**self.exact, **sizes}, {}, sizes)

    def tried(self, sizes: Sizes, given: Sizes) -> dict[str, int]:
        """Sizes to run the model with; `given` ones are kept, if terms of sums may change."""
        whole = {**self.exact, **sizes, **given}
        return _summed({**self.sums, **self.likely, **self.sums}, whole, given, sizes)

    def add_sum(self, name: str, terms: tuple[str, ...]) -> None:
        """Enter a sum, also in place of the dimension in others."""
        for other, parts in self.sums.items():
            at = parts.index(name) if name in parts else len(parts)
            self.sums[other] = (*parts[:at], *(terms if name in parts else ()), *parts[at + 1 :])
        self.sums[name] = terms

    def check(self, path: str, given: Sizes) -> None:
        """Raise InputError for a size that the model does not run with; it names the node."""
        for name, size in given.items():
            right = self.fixed.get(name)
            if right is not None and not right.takes(size):
                raise InputError(
                    f"{path}: {name}={size}: expected {right.size}"
                    f"{' or 1' if right.or_one else ''}, as {right.node} takes no other size. Give "
                    f"{name}={right.size}, or leave it out."
                )


def right_sizes(model: ir.Model, names: Sequence[str]) -> RightSizes:
    """The right sizes of the open dimensions `names` of a uniform model."""
    found = RightSizes()
    for _ in names:
        if not _learn(model, names, found):
            break
    return found


def _learn(model: ir.Model, names: Sequence[str], found: RightSizes) -> bool:
    """Enter what the nodes tell that get known sizes; return whether there was something new."""
    free = numbers_of([name for name in names if name not in {*found.fixed, *found.sums}])
    if not free:
        return False
    probes = dict(_numbers(free, found))
    runs: list[ShapeRun] = []
    for number in range(COUNT):
        runs.append(shape_run(model, probes, number))
        unequal = [one for one in pairs(model, runs) if differs(one[1])] if number else []
        likely = [pair for _, pair in unequal if pair[0].only_likely]
        found.likely.update(filter(None, (sum_of(pair, free) for pair in likely)))
        unequal = [one for one in unequal if not one[1][0].only_likely]
        if number and (not unequal or _solve(unequal, free, found)):
            return bool(unequal)
    return False


def _solve(
    unequal: Sequence[tuple[ir.Node, Sequence[SizePair]]],
    free: Mapping[str, Numbers],
    found: RightSizes,
) -> bool:
    """Enter all right sizes that make pairs equal, or one sum; return whether there are some."""
    before = len(found.fixed)
    for node, pair in unequal:
        solution = solved(pair, free)
        if solution is None:
            continue
        name, size, or_one = solution
        if name not in found.fixed or found.fixed[name].or_one and not or_one:
            found.fixed[name] = RightSize(name, size, f"node {node.name} ({node.op_type})", or_one)
    if len(found.fixed) > before:
        return True
    made = next(filter(None, (sum_of(pair, free) for _, pair in unequal)), None)
    if made is not None:
        found.add_sum(*made)
    return made is not None


def _numbers(free: Mapping[str, Numbers], found: RightSizes) -> Iterator[tuple[str, Numbers]]:
    """The numbers of all dimensions in all probes."""
    known = dict(free)
    yield from free.items()
    for name, right in found.fixed.items():
        known[name] = (right.size,) * len(next(iter(free.values())))
        yield name, known[name]
    for name, terms in found.sums.items():
        yield name, tuple(map(sum, zip(*(known[one] for one in terms), strict=True)))


def _summed(
    sums: Sums, whole: dict[str, int], given: Sizes, names: Iterable[str]
) -> dict[str, int]:
    """The sizes of `names`; where a sum is given, one of its terms follows from it."""
    for name, terms in sums.items():
        free = [one for one in terms if one not in given]
        if name in given and free:
            rest = given[name] - sum(whole[one] for one in terms if one != free[0])
            whole[free[0]] = max(rest, 1)
        elif name not in given:
            whole[name] = sum(whole[one] for one in terms)
    return {name: whole[name] for name in names}
