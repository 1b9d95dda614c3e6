"""Orders that a replica has: a batch of requests, or a switch to other weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...comm.request_memory.owned_arena import Region
from ...comm.serving.caller_slots import NO_SLOT
from ...comm.serving.orders import AS_ORDERED, Answer, GivenOutputs, InvalidRankData
from ..requests.batch_axes import BatchAxes, split
from ..requests.outputs import OutputSpecs
from ..requests.placed_outputs import PlacedOutputs
from ..requests.request import AnyResult, Outputs, Request, Result
from ..requests.request_inputs import RequestInputs

FoundOutputs: TypeAlias = Outputs | PlacedOutputs


@dataclass(slots=True, eq=False)
class Batch:
    """Requests that run as one: order `number` of the ring, given at `begun` (`time.monotonic`).

    `given` are the outputs that ranks give, `regions` their memory for them, by rank. `axes` tell
    the rows of several requests apart.
    """

    number: int
    requests: list[Request]
    inputs: RequestInputs
    outputs: OutputSpecs
    axes: BatchAxes | None
    given: GivenOutputs
    regions: dict[int, Region]
    begun: float
    slot: int
    """Where one of the callers waits, which takes the answers for all of them; else NO_SLOT."""

    found: dict[int, FoundOutputs] = field(default_factory=dict)
    """By rank: the outputs of those that give some, once all have answered."""

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where an answer is not to this batch, or in memory of others."""
        region = self.regions.get(rank)
        if region is not None:
            self.outputs.found(rank, answer, self.given.by_rank[rank], region, self.inputs)
        elif answer.outputs:
            raise InvalidRankData(rank, f"answered with {len(answer.outputs)} outputs, expected 0")

    def accept(self, answers: Mapping[int, Answer]) -> None:
        """Take the answers of all ranks; those that are left out are AS_ORDERED. Raises
        InvalidRankData like `check`.
        """
        for rank, answer in answers.items():
            if rank not in self.regions:
                self.check(rank, answer)
        for rank, region in self.regions.items():
            answer = answers.get(rank, AS_ORDERED)
            positions = self.given.by_rank[rank]
            self.found[rank] = self.outputs.found(rank, answer, positions, region, self.inputs)

    def results(self, leased: bool) -> list[AnyResult]:
        """The result of each request, once all answers are accepted; arrays are `leased` from the
        arena as long as callers hold them, or copied.

        Raises ModelError where outputs of the requests cannot be told apart.
        """
        if self.requests[0].placed and len(self.requests) == len(self.found) == 1:
            for placed in self.found.values():
                if isinstance(placed, PlacedOutputs):
                    placed.leased = leased
                    return [placed]
        found = self._separate({rank: _arrays(one, leased) for rank, one in self.found.items()})
        strings = self.outputs.strings
        if not strings:
            return [*found]
        return [
            result if request.packed else strings.unpacked(result)
            for request, result in zip(self.requests, found, strict=True)
        ]

    def _separate(self, by_rank: Mapping[int, Outputs]) -> list[Result]:
        """As `results`, with strings in the form of shared memory."""
        if self.requests[0].every_rank:
            ranks = range(self.outputs.world_size)
            return [[self.outputs.in_order(by_rank.get(rank, {})) for rank in ranks]]
        if len(by_rank) == 1:
            (together,) = by_rank.values()
        else:
            every = {name: found[name] for found in by_rank.values() for name in found}
            together = self.outputs.in_order(every)
        if len(self.requests) == 1 or self.axes is None:
            return [together]
        return [*split(self.axes, together, [request.rows for request in self.requests])]


def slot_of(requests: Sequence[Request]) -> int:
    """The slot at which one of the callers waits; NO_SLOT where none does."""
    for request in requests:
        if request.slot != NO_SLOT:
            return request.slot
    return NO_SLOT


@dataclass(slots=True, eq=False)
class OrderWithoutOutputs:
    """The order `number`, given at `begun` (`time.monotonic`), to which ranks give no outputs."""

    number: int
    begun: float

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where a rank gives outputs."""
        if answer.outputs:
            raise InvalidRankData(rank, f"answered with {len(answer.outputs)} outputs, expected 0")

    def accept(self, answers: Mapping[int, Answer]) -> None:
        """See Batch.accept."""
        for rank, answer in answers.items():
            self.check(rank, answer)


def _arrays(found: FoundOutputs, leased: bool) -> Outputs:
    outputs = found.arrays() if isinstance(found, PlacedOutputs) else found
    return outputs if leased else {name: array.copy() for name, array in outputs.items()}


@dataclass(slots=True, eq=False)
class WeightSwitch(OrderWithoutOutputs):
    """The ranks compute with other weights from the next order on."""


@dataclass(slots=True, eq=False)
class StepOrder(OrderWithoutOutputs):
    """One step of a decoder. Its results lie in memory that all steps share."""

    answered: bool = False

    def accept(self, answers: Mapping[int, Answer]) -> None:
        """See Batch.accept."""
        OrderWithoutOutputs.accept(self, answers)
        self.answered = True


InflightOrder: TypeAlias = Batch | WeightSwitch | StepOrder
