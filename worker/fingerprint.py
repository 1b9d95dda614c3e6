"""What a rank tells the others about its shard, so that they can see whether the shards belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod

import msgspec

from ..comm.collectives.base import Call
from .collective_types import shapes_fit
from .dtypes import ELEMENT_TYPES
from .plan import Branch, Exchange, Origin, Plan, Segment, Step

Shape = tuple[int, ...] | None
_ITEM_BYTES = {row.name: row.numpy.itemsize for row in ELEMENT_TYPES}


class Operand(msgspec.Struct, frozen=True):
    """dtype and shape of a tensor that a collective moves."""

    dtype: str
    shape: Shape

    def fits(self, other: Operand) -> bool:
        """Same dtype, and no known dimension that differs."""
        return self.dtype == other.dtype and shapes_fit(self.shape, other.shape)

    @property
    def nbytes(self) -> int | None:
        """The size; None where the file leaves it open."""
        if self.shape is None or any(dim < 0 for dim in self.shape):
            return None
        return prod(self.shape) * _ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        return self.dtype + ("[?]" if self.shape is None else str(list(self.shape)))


class EqualShards(msgspec.Struct, frozen=True):
    """Whether equal shards are `allowed`, and whether all ranks get the same inputs; None: that is not known."""

    allowed: bool = False
    same_inputs: bool | None = None


NOT_ASKED = EqualShards()


class Around(msgspec.Struct, frozen=True):
    """A loop, or a side of an If, around a collective; `number` counts the loops and Ifs of the shard's plan."""

    word: str
    number: int


class Entry(msgspec.Struct, frozen=True):
    """One collective of a shard, with what it sends and receives, and what is around it, outermost first."""

    call: Call
    sends: tuple[Operand, ...]
    receives: tuple[Operand, ...]
    around: tuple[Around, ...] = ()
    origin: Origin | None = None

    @property
    def destinations(self) -> tuple[int, ...]:
        """The ranks that `sends` go to, where they go to single ones."""
        return tuple(self.call.group.ranks[position] for position in self.call.sends_to)

    @property
    def sources(self) -> tuple[int, ...]:
        """The ranks that `receives` come from, likewise."""
        return tuple(self.call.group.ranks[position] for position in self.call.receives_from)

    def __str__(self) -> str:
        return f"{self.call.kind.value} {self.call.node}"


class Fingerprint(msgspec.Struct, frozen=True):
    """What a rank tells the others about its shard."""

    rank: int
    path: str
    inputs: tuple[str, ...]
    entries: tuple[Entry, ...]
    live: bool = False
    """Whether its weights are shared or may be updated."""

    equal_shards: EqualShards = NOT_ASKED


def fingerprint(plan: Plan, rank: int, live: bool = False, equal_shards: EqualShards = NOT_ASKED) -> Fingerprint:
    """The fingerprint of a rank's plan, whose weights are `live` or not."""
    entries = tuple(_entries(plan, plan.steps, (), count()))
    if plan.origins:
        entries = tuple(msgspec.structs.replace(entry, origin=origin)
                        for entry, origin in zip(entries, plan.origins, strict=True))
    return Fingerprint(rank, plan.path, tuple(i.name for i in plan.inputs), entries, live, equal_shards)


def _entries(plan: Plan, steps: Sequence[Step], around: tuple[Around, ...], numbers: Iterator[int]) -> Iterator[Entry]:
    for step in steps:
        if isinstance(step, Exchange):
            sends, receives = (tuple(Operand(plan.types[n].dtype.name, plan.types[n].shape) for n in names)
                               for names in (step.inputs, step.outputs))
            yield Entry(step.call, sends, receives, around)
        elif not isinstance(step, Segment):
            number = next(numbers)
            for word, block in zip(("if", "else") if isinstance(step, Branch) else ("loop",), step.blocks, strict=True):
                yield from _entries(plan, block.steps, (*around, Around(word, number)), numbers)
