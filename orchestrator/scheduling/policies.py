"""Scheduling policies: choose the requests that a free replica runs next.

A new policy is a class with `@scheduling_policy(NAME)`; a model uses it by `policy: NAME` in its
settings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from ...comm.errors import UsageError
from ..config.settings import BatchingSettings, ModelSettings
from ..requests.queue import RequestQueue
from ..requests.request import Request
from .inflight import InflightBatches
from .ready_replicas import ReadyReplicas


class TakenBatch(NamedTuple):
    """Requests that have left the queue: those that run `together`, and those `dropped`, cancelled
    or too late.

    Where nothing runs yet, `due` is when something will (`time.monotonic`; None: nothing waits).
    """

    together: list[Request]
    due: float | None
    dropped: list[Request]


class SchedulingPolicy(Protocol):
    """Decides for one model what runs next and where; called with the scheduler's lock held, so it
    must be quick.

    Requests may run together if their `kind` is equal and not None. An implementation inherits
    `choose`, or has its own.
    """

    immediate: bool
    """Whether a request that finds a replica free and nothing waiting runs at once, without `take`.
    """

    def choose(self, replicas: ReadyReplicas) -> InflightBatches | None:
        """The replica to run something next; None where none takes more. Here: the first with the
        least to do.
        """
        return replicas.least_loaded()

    def take(self, queue: RequestQueue, now: float) -> TakenBatch:
        """Remove from the queue what one replica is to run now (`time.monotonic`)."""


PolicyFactory = Callable[[ModelSettings], SchedulingPolicy]
POLICIES: dict[str, PolicyFactory] = {}


def scheduling_policy(name: str) -> Callable[[PolicyFactory], PolicyFactory]:
    """Register a class, or a function, that makes a policy of a model's settings, by the `policy`
    in these.
    """

    def register(factory: PolicyFactory) -> PolicyFactory:
        if name in POLICIES:
            raise ValueError(f"there is a scheduling policy '{name}' already")
        POLICIES[name] = factory
        return factory

    return register


def policy_of(settings: ModelSettings) -> SchedulingPolicy:
    """The policy that settings name, else by whether they batch. UsageError for an unknown name."""
    name = settings.policy or ("batching" if settings.batching else "priority")
    if name not in POLICIES:
        raise UsageError(f"policy: got '{name}', expected one of {', '.join(sorted(POLICIES))}.")
    return POLICIES[name](settings)


@scheduling_policy("priority")
class PriorityPolicy(SchedulingPolicy):
    """Each request runs alone: by priority, and within a priority first in, first out."""

    immediate = True

    def __init__(self, settings: ModelSettings) -> None:
        """See SchedulingPolicy."""

    def take(self, queue: RequestQueue, now: float) -> TakenBatch:
        """See SchedulingPolicy.take."""
        first, dropped = queue.take(now)
        return TakenBatch([first] if first else [], None, dropped)


class Decision(NamedTuple):
    """Requests to run together now; where there are none, when some may be `due` (None: nothing
    waits).
    """

    together: list[Request]
    due: float | None


@dataclass(slots=True)
class _Candidate:
    """Requests of one kind; `full`: no more may join. `due` is when one has waited long enough.

    The first `preferred` of them have together a preferred number of rows.
    """

    members: list[Request] = field(default_factory=list)
    rows: int = 0
    full: bool = False
    due: float = inf
    preferred: int = 0

    def ready(self, now: float) -> list[Request]:
        """Those that run now; none where all wait for more."""
        if self.preferred:
            return self.members[: self.preferred]
        return self.members if self.full or self.due <= now else []


class BatchingPolicy(SchedulingPolicy):
    """Requests of one kind run together when they fill a batch, or one has waited `max_delay`.

    Those that have together a preferred number of rows run at once. `max_batch` counts rows: a
    request with more runs alone. So does one during which a rank has failed: it may be the cause,
    and the requests with it would be blamed, too. No request waits for others longer than half the
    time until its deadline.
    """

    immediate = False

    def __init__(self, max_batch: int, max_delay: float, preferred: Collection[int] = ()) -> None:
        """`max_delay` is in seconds."""
        self._max_batch = max_batch
        self._max_delay = max_delay
        self._preferred = frozenset(preferred)
        self._enough = max(preferred, default=max_batch)

    def take(self, queue: RequestQueue, now: float) -> TakenBatch:
        """See SchedulingPolicy.take."""
        dropped: list[Request] = []
        decision = self.decide(_living(queue, now, dropped), now)
        for request in (*decision.together, *dropped):
            queue.remove(request)
        return TakenBatch(*decision, dropped)

    def decide(self, waiting: Iterable[Request], now: float) -> Decision:
        """The first batch, by its first request's place in `waiting`, that is full, due or of a
        preferred number of rows.

        Looks at no more requests than the batch of the first one needs to be full, which can be all
        of them.
        """
        batches: dict[Hashable, _Candidate] = {}
        first: _Candidate | None = None
        for request in waiting:
            alone = request.kind is None or request.deaths
            batch = batches.setdefault(request if alone else request.kind, _Candidate())
            self._join(batch, request, bool(alone))
            first = first or batch
            if first.full:
                break
        ready = (batch.ready(now) for batch in batches.values())
        together = next(filter(None, ready), [])
        return Decision(
            together,
            None if together else min((batch.due for batch in batches.values()), default=None),
        )

    def _join(self, batch: _Candidate, request: Request, alone: bool) -> None:
        """Add a request, unless the batch is closed; what does not fit closes it, so that nothing
        overtakes it.
        """
        size = max(request.rows, 1)
        if batch.full or batch.members and batch.rows + size > self._max_batch:
            batch.full = True
            return
        batch.members.append(request)
        batch.rows += size
        batch.full = alone or batch.rows >= self._enough
        if batch.rows in self._preferred:
            batch.preferred = len(batch.members)
        batch.due = min(batch.due, request.submitted + self._longest_wait(request))

    def _longest_wait(self, request: Request) -> float:
        if request.deadline is None:
            return self._max_delay
        return min(self._max_delay, (request.deadline - request.submitted) / 2)


@scheduling_policy("batching")
def _batching(settings: ModelSettings) -> BatchingPolicy:
    batching = settings.batching or BatchingSettings(max_batch=1)
    return BatchingPolicy(batching.max_batch, batching.max_delay, batching.preferred)


def _living(queue: RequestQueue, now: float, dropped: list[Request]) -> Iterable[Request]:
    for request in queue:
        if request.dropped or request.late(now):
            dropped.append(request)
        else:
            yield request
