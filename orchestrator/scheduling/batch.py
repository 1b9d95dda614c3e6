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
from ..requests.request import Request, Result
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

    @property
    def slot(self) -> int:
        """Where one of the callers waits, which takes the answers for all of them; else NO_SLOT."""
        for request in self.requests:
            if request.slot != NO_SLOT:
                return request.slot
        return NO_SLOT

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where an answer is not to this batch, or in memory of others."""
        self.outputs.check(rank, answer, self.given[rank], self.regions[rank], self.inputs)

    def results(self, answers: Sequence[Answer], leased: bool) -> list[Result]:
        """The result of each request; arrays are `leased` from the arena, or copied.

        Raises ModelError where outputs of the requests cannot be told apart.
        """
        found = self._found(answers, leased)
        if self.outputs.strings and not self.requests[0].packed:  # such requests run alone
            return [*map(self.outputs.strings.unpacked, found)]
        return found

    def _found(self, answers: Sequence[Answer], leased: bool) -> list[Result]:
        """As `results`, with strings in the form of shared memory."""
        outputs = self.outputs
        first = self.requests[0]
        if len(answers) == 1 and len(self.requests) == 1 and not first.every_rank:
            given, region = self.given[0], self.regions[0]  # the same as below, sooner
            return [outputs.arrays(answers[0], given, region, self.inputs, leased)]
        by_rank = [
            outputs.arrays(answer, given, region, self.inputs, leased)
            for answer, given, region in zip(answers, self.given, self.regions, strict=True)
        ]
        if first.every_rank:
            return [[outputs.in_order(found) for found in by_rank]]
        together = outputs.in_order({name: found[name] for found in by_rank for name in found})
        if len(self.requests) == 1 or self.axes is None:
            return [together]
        return [*split(self.axes, together, [request.rows for request in self.requests])]


@dataclass(slots=True, eq=False)
class WeightSwitch:
    """The order `number`: the ranks compute with other weights from the next order on."""

    number: int
    begun: float

    def check(self, rank: int, answer: Answer) -> None:
        """Raise InvalidRankData where a rank gives outputs, which no switch has."""
        if answer.outputs:
            raise InvalidRankData(rank, f"answered with {len(answer.outputs)} outputs, expected 0")


InflightOrder: TypeAlias = Batch | WeightSwitch
