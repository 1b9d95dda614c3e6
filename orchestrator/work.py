"""What a group of ranks runs at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..comm.serving.seats import NO_SEAT
from ..comm.serving.tensor_arena import Region
from .inputs import Inputs
from .request import Request


@dataclass(slots=True, eq=False)
class Work:
    """One request, or a batch of them; none is a switch to other weights.

    `given` has the positions of the outputs that each rank gives.

    `regions` is each rank's room for them, `number` the order's in its epoch, `begun` a time of `time.monotonic`.
    """

    requests: list[Request]
    inputs: Inputs | None
    given: tuple[tuple[int, ...], ...]
    regions: list[Region | None] = field(default_factory=list)
    number: int = -1
    begun: float = 0.0

    @property
    def seat(self) -> int:
        """Where one of the callers waits, who can take the answers for all of them."""
        for request in self.requests:
            if request.seat != NO_SEAT:
                return request.seat
        return NO_SEAT
