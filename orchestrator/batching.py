"""Dynamic batching: which of the waiting requests run together, and when."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from .queue import RequestQueue
from .request import Request


class Decision(NamedTuple):
    """What is to run together now; nothing, until when there may be more (None: nothing waits)."""

    together: list[Request]
    until: float | None


TakenBatch = tuple[list[Request], float | None, list[Request]]
"""A decision that was carried out, and those that left the queue, cancelled or too late, unanswered."""


@dataclass(slots=True)
class _Batch:
    """Requests of one kind, and whether no more may join them; `due` is when the most impatient has waited enough."""

    members: list[Request] = field(default_factory=list)
    rows: int = 0
    full: bool = False
    due: float = inf


class Batcher:
    """Requests of one kind run together as soon as they fill a batch, or one of them has waited `max_delay` seconds.

    `max_batch` is in rows; a request with more runs alone, and so does one during which a rank has died: it may be the
    cause, and what runs with it would be blamed too. No request waits for others longer than half the time that it has.
    """

    def __init__(self, max_batch: int, max_delay: float) -> None:
        self._max_batch, self._max_delay = max_batch, max_delay

    def take(self, queue: RequestQueue, now: float) -> TakenBatch:
        """Remove from the queue what is to run now, and what it meets that is cancelled or too late."""
        dropped: list[Request] = []
        decision = self.decide(_living(queue, now, dropped), now)
        for request in (*decision.together, *dropped):
            queue.remove(request)
        return *decision, dropped

    def decide(self, waiting: Iterable[Request], now: float) -> Decision:
        """The first batch, by its first request's place in `waiting`, that is full or due.

        Looks at no more requests than the batch of the first one needs to be full, which can be all of them.
        """
        batches: dict[Hashable, _Batch] = {}
        first: _Batch | None = None
        for request in waiting:
            alone = request.kind is None or request.deaths
            batch = batches.setdefault(request if alone else request.kind, _Batch())
            self._join(batch, request, bool(alone))
            first = first or batch
            if first.full:
                break
        ready = (batch.members for batch in batches.values() if batch.full or batch.due <= now)
        together = next(ready, [])
        return Decision(together, None if together else min((batch.due for batch in batches.values()), default=None))

    def _join(self, batch: _Batch, request: Request, alone: bool) -> None:
        """Add a request, unless the batch is closed; what does not fit closes it, so that nothing overtakes it."""
        size = max(request.rows, 1)
        if batch.full or batch.members and batch.rows + size > self._max_batch:
            batch.full = True
            return
        batch.members.append(request)
        batch.rows += size
        batch.full = alone or batch.rows >= self._max_batch
        batch.due = min(batch.due, request.submitted + self._patience(request))

    def _patience(self, request: Request) -> float:
        if request.deadline is None:
            return self._max_delay
        return min(self._max_delay, (request.deadline - request.submitted) / 2)


def take_one(queue: RequestQueue, now: float) -> TakenBatch:
    """As Batcher.take where nothing is batched."""
    first, dropped = queue.take(now)
    return [first] if first else [], None, dropped


def _living(queue: RequestQueue, now: float, dropped: list[Request]) -> Iterable[Request]:
    for request in queue:
        if request.future.cancelled() or request.late(now):
            dropped.append(request)
        else:
            yield request
