"""The errors with which requests end that no rank has answered."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..comm.errors import DeadlineExceeded, Poisoned, RankmeshError
from .request import Request

_DEATHS = 2
"""A request during which ranks died as often as this is refused."""


def too_late(request: Request) -> DeadlineExceeded:
    """Its deadline has passed while it waited."""
    waited = time.monotonic() - request.submitted
    return DeadlineExceeded(f"request {request.id} was not answered within {waited:.3g} s: it waited for a free rank. "
                            f"Send less at once, add replicas, or give a longer timeout.")


def too_slow(request: Request) -> DeadlineExceeded:
    """Its deadline has passed while it ran."""
    waited = time.monotonic() - request.submitted
    return DeadlineExceeded(f"request {request.id} was not answered within {waited:.3g} s: it is running, attempt "
                            f"{request.attempts}, and its ranks go on. Give a longer timeout.")


def blamed(requests: Sequence[Request], error: RankmeshError) -> list[tuple[Request, RankmeshError]]:
    """Requests were running on a rank when it failed with `error`: those that have often enough, and their errors."""
    for request in requests:
        request.deaths += 1
    return [(request, _poisoned(request, error)) for request in requests if request.deaths >= _DEATHS]


def _poisoned(request: Request, error: RankmeshError) -> Poisoned:
    refusal = Poisoned(f"request {request.id} is refused: ranks failed {request.deaths} times while they ran it. "
                       f"The last time: {error}")
    refusal.__cause__ = error
    return refusal


def another(error: RankmeshError) -> RankmeshError:
    """The same for one more future: each caller who raises it adds to its traceback."""
    same = type(error)(str(error))
    same.__cause__ = error.__cause__
    return same


def as_ours(error: Exception) -> RankmeshError:
    """An error of ours as it is; what can only be a fault of this program with its class."""
    return error if isinstance(error, RankmeshError) else RankmeshError(f"{type(error).__name__}: {error}")
