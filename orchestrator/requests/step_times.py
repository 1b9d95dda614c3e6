"""Step times: tell when a step of a chain's request waited and ran, and where."""

from __future__ import annotations

import msgspec


class StepTimes(msgspec.Struct, frozen=True, array_like=True):
    """One step, whose `model` may be a chain with `steps` of its own.

    `submitted`, `begun` (None: never) and `ended` are seconds of the host's monotonic clock;
    `replica`, `together` and `attempts` are as Request has them.
    """

    model: str
    submitted: float
    begun: float | None
    ended: float
    replica: int
    together: int
    attempts: int
    steps: tuple[StepTimes, ...] = ()
