"""Orders that a replica has: a batch of requests, or a switch to other weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...comm.serving.caller_slots import NO_SLOT
from ...comm.serving.orders import Answer, InvalidRankData
from ...comm.serving.tensor_arena import Region
from ..requests.batch_axes import BatchAxes, split
from ..requests.outputs import OutputSpecs, Positions
from ..requests.request import Outputs, Request, Result
from ..requests.request_inputs import RequestInputs


@dataclass(slots=True, eq=False)
class Batch:
    """Requests that run as one: order `number` of the ring, given at `begun` (`time.monotonic`).

    `given` has the positions of the outputs that each rank gives, `regions` each rank's memory for
    them. `axes` tell the rows of several requests apart.
    """

    number: int
    requests: list[Request]
    inputs: RequestInputs
    outputs: OutputSpecs
    axes: BatchAxes | None
    given: tuple[Positions, ...]
    regions: list[Region | None]
    begun: float
    slot: int
    """Where one of the callers waits, which takes the answers for all of them; else NO_SLOT."""

    found: Sequence[Outputs] = ()
    """By rank: its outputs, once all have answered."""

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where an answer is not to this batch, or in memory of others."""
        self.outputs.arrays(rank, answer, self.given[rank], self.regions[rank], self.inputs)

    def accept(self, answers: Sequence[Answer]) -> None:
        """Take the answers of all ranks. Raises InvalidRankData like `check`."""
        found = []
        for rank, answer in enumerate(answers):
            given, region = self.given[rank], self.regions[rank]
            found.append(self.outputs.arrays(rank, answer, given, region, self.inputs))
        self.found = found

    def results(self, leased: bool) -> list[Result]:
        """The result of each request, once all answers are accepted; arrays are `leased` from the
        arena as long as callers hold them, or copied.

        Raises ModelError where outputs of the requests cannot be told apart.
        """
        found = self._separate(leased)
        strings = self.outputs.strings
        if not strings:
            return found
        return [
            result if request.packed else strings.unpacked(result)
            for request, result in zip(self.requests, found, strict=True)
        ]

    def _separate(self, leased: bool) -> list[Result]:
        """As `results`, with strings in the form of shared memory."""
        by_rank = self.found if leased else [_copied(found) for found in self.found]
        if self.requests[0].every_rank:
            return [[self.outputs.in_order(found) for found in by_rank]]
        together = by_rank[0]
        if len(by_rank) > 1:
            every = {name: found[name] for found in by_rank for name in found}
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
class WeightSwitch:
    """The order `number`: the ranks compute with other weights from the next order on."""

    number: int
    begun: float

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where a rank gives outputs, which no switch has."""
        if answer.outputs:
            raise InvalidRankData(rank, f"answered with {len(answer.outputs)} outputs, expected 0")

    def accept(self, answers: Sequence[Answer]) -> None:
        """See Batch.accept."""
        for rank, answer in enumerate(answers):
            self.check(rank, answer)


def _copied(outputs: Outputs) -> Outputs:
    return {name: array.copy() for name, array in outputs.items()}


InflightOrder: TypeAlias = Batch | WeightSwitch
