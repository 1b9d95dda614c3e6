"""Fingerprints of shards: the data by which ranks check that their shards belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod

import msgspec

from ...comm.collective_call import Call, Kind
from ...comm.collectives.device_choice import HOST, DevicePlace
from ...comm.collectives.registry import ON_ONE_HOST, BackendChoice
from ...compiler.element_types.dtypes import ELEMENT_TYPES
from ...compiler.onnx_graph.collective_types import shapes_fit
from .plan import BranchStep, CollectiveStep, Origin, Plan, Segment, Step

_ITEM_BYTES = {row.name: row.numpy.itemsize for row in ELEMENT_TYPES}


class Operand(msgspec.Struct, frozen=True):
    """The dtype and shape of a tensor that a collective moves."""

    dtype: str
    shape: tuple[int, ...] | None

    def fits(self, other: Operand) -> bool:
        """Whether the dtypes are equal, and all known dimensions."""
        return self.dtype == other.dtype and shapes_fit(self.shape, other.shape)

    @property
    def nbytes(self) -> int | None:
        """The size in bytes; None where the file leaves it open."""
        if self.shape is None or any(dim < 0 for dim in self.shape):
            return None
        return prod(self.shape) * _ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        return self.dtype + ("[?]" if self.shape is None else str(list(self.shape)))


class EqualShardPolicy(msgspec.Struct, frozen=True):
    """Whether equal shards are `allowed`, and whether all ranks get the same inputs (None:
    unknown).
    """

    allowed: bool = False
    same_inputs: bool | None = None


NOT_ASKED = EqualShardPolicy()


class EnclosingBlock(msgspec.Struct, frozen=True):
    """A loop, or a side of an If, around a collective.

    `number` counts the loops and Ifs of the plan.
    """

    word: str
    number: int


class ShardCollective(msgspec.Struct, frozen=True):
    """One collective of a shard: its call and its operands.

    `around` has the blocks around it, outermost first; `origin` is that of its operands.
    """

    call: Call
    sends: tuple[Operand, ...]
    receives: tuple[Operand, ...]
    around: tuple[EnclosingBlock, ...] = ()
    origin: Origin | None = None

    @property
    def destinations(self) -> tuple[int, ...]:
        """The ranks that receive `sends`, where each goes to one rank."""
        return tuple(self.call.group.ranks[position] for position in self.call.sends_to)

    @property
    def sources(self) -> tuple[int, ...]:
        """The ranks that send `receives`, where each comes from one rank."""
        return tuple(self.call.group.ranks[position] for position in self.call.receives_from)

    def __str__(self) -> str:
        return f"{self.call.kind.value} {self.call.node}"


class Fingerprint(msgspec.Struct, frozen=True):
    """A rank's shard as the other ranks know it.

    `live`: its weights are shared or may be updated. `slicing` is the same in all shards that
    `rankmesh slice` wrote together. `placed`: it says which rank it is for. `collectives` are those
    that the rank was asked for, or that suit the host; its results lie at `place`.
    """

    rank: int
    path: str
    inputs: tuple[str, ...]
    entries: tuple[ShardCollective, ...]
    live: bool = False
    equal_shards: EqualShardPolicy = NOT_ASKED
    slicing: str = ""
    placed: bool = False
    collectives: BackendChoice = ON_ONE_HOST
    place: DevicePlace = HOST


def fingerprint(
    plan: Plan, rank: int, live: bool = False, equal_shards: EqualShardPolicy = NOT_ASKED
) -> Fingerprint:
    """The fingerprint of a rank's plan, whose weights are `live` or not."""
    entries = tuple(_entries(plan, plan.steps, (), count()))
    if plan.origins:
        entries = tuple(
            msgspec.structs.replace(entry, origin=origin)
            for entry, origin in zip(entries, plan.origins, strict=True)
        )
    return Fingerprint(
        rank,
        plan.path,
        tuple(i.name for i in plan.inputs),
        entries,
        live,
        equal_shards,
        plan.slicing,
        plan.placed,
    )


def _entries(
    plan: Plan, steps: Sequence[Step], around: tuple[EnclosingBlock, ...], numbers: Iterator[int]
) -> Iterator[ShardCollective]:
    for step in steps:
        if isinstance(step, CollectiveStep):
            given = () if step.call.kind is Kind.RECEIVE else step.inputs  # a shape is not sent
            sends, receives = (
                tuple(Operand(plan.types[n].dtype.name, plan.types[n].shape) for n in names)
                for names in (given, step.outputs)
            )
            yield ShardCollective(step.call, sends, receives, around)
        elif not isinstance(step, Segment):
            number = next(numbers)
            for word, block in zip(
                ("if", "else") if isinstance(step, BranchStep) else ("loop",),
                step.blocks,
                strict=True,
            ):
                yield from _entries(
                    plan, block.steps, (*around, EnclosingBlock(word, number)), numbers
                )
