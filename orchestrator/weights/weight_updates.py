"""Weight updates of one model: all ranks of all replicas get new weights, or none does."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ...comm.errors import RankFailed, UsageError
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.weight_slices import WeightSlices
from ...comm.serving.weights import DiscardWeights, WeightReply, encode_weight_request
from ..config.settings import ModelSettings
from ..event_loop.loop import EventLoopThread
from ..replica.control import PlacedRequest
from ..replica.incarnation import Incarnation
from ..replica.replica import Replica
from ..scheduling.replica_weights import PlacedWeight, ReplicaWeights
from ..scheduling.scheduler import Scheduler
from .payload import GivenWeights, WeightCollector, WeightPayload, checked
from .weight_query import RanksLost, WeightQuery

_DEATHS = 2
"""An update during which ranks of a replica failed as often is given up."""


class WeightUpdates:
    """Replaces weights; one update at a time, from any thread but the event loop's.

    First all ranks make the weights ready, while requests run. That may fail, and changes nothing.
    Then, in one moment, they are in effect: each replica switches between two of its batches, and
    ranks that start from then on start with them.
    """

    def __init__(
        self,
        settings: ModelSettings,
        scheduler: Scheduler,
        replicas: Sequence[Replica],
        arena: OwnedArena,
        loop: EventLoopThread,
        slices: WeightSlices | None,
    ) -> None:
        """`arena` is for the weights; the `settings` say how long ranks may take; `slices` tell
        what the weights of sliced shards are.
        """
        self._slices = slices
        self._settings = settings
        self._scheduler = scheduler
        self._replicas = replicas
        self._arena = arena
        self._loop = loop
        self._collector = WeightCollector(arena)
        self._generations = itertools.count(1)
        self._turn = threading.Lock()
        self._previous: ReplicaWeights | None = None

    def update(self, given: GivenWeights, delta: bool) -> int:
        """Replace weights, or with `delta` add to the exported ones; the new version."""
        with self._my_turn():
            scheduler = self._scheduler
            # No local of this frame has the weights: an error's traceback would keep their memory.
            payload = WeightPayload.of(given, len(scheduler.weights.ranks), self._slices)
            new = self._collected(payload, delta)
            generation = next(self._generations)
            self._put_into_effect(scheduler.weights.updated(generation, new), scheduler.weights)
            return scheduler.weights.version

    def rollback(self) -> int:
        """Go back to the version before the last update; its number. UsageError without one."""
        with self._my_turn():
            if self._previous is None:
                raise UsageError(
                    "there is no version of the weights to go back to: only the one before the "
                    "last update is kept, and only until a rollback to it."
                )
            self._put_into_effect(self._previous, None)
            return self._scheduler.weights.version

    def forget(self) -> None:
        """Free the updated weights: no rank is left that uses them."""
        self._previous = None
        self._scheduler.forget_weights()
        self._arena.trim()

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Exclude other updates; after a failure the ranks discard what they have made ready."""
        if threading.current_thread() is self._loop:
            raise UsageError(
                "weights cannot be updated from a callback of a future: call it from a thread of "
                "yours."
            )
        with self._turn:
            before = self._scheduler.weights.generation
            try:
                yield
            except BaseException:
                if self._scheduler.weights.generation == before:
                    self._discard()
                raise
            finally:
                self._arena.trim()

    def _collected(self, payload: WeightPayload, delta: bool) -> list[dict[str, PlacedWeight]]:
        """The tensors of a payload in shared memory, with the help of one replica's ranks."""
        for _ in range(_DEATHS):
            replica, incarnation = self._settled()[0]
            try:
                return self._collector.weights(
                    payload, delta, partial(self._ask, incarnation), self._make_room
                )
            except RanksLost:
                lost = replica
        raise _given_up(lost)

    def _make_room(self) -> None:
        """Free the weights before the current ones: there are never more than two copies."""
        self._previous = None

    def _put_into_effect(self, weights: ReplicaWeights, previous: ReplicaWeights | None) -> None:
        deaths = Counter[int]()
        staged = set[tuple[int, int]]()
        while not self._scheduler.commit(weights, staged):
            for replica, incarnation, query in self._staging(weights, staged):
                index = replica.spec.index
                try:
                    checked(query.replies())
                    staged.add((index, incarnation.number))
                except RanksLost:
                    deaths[index] += 1
                    if deaths[index] >= _DEATHS:
                        raise _given_up(replica) from None
        self._previous = previous
        self._scheduler.wait_switched()

    def _staging(
        self, weights: ReplicaWeights, staged: set[tuple[int, int]]
    ) -> list[tuple[Replica, Incarnation, WeightQuery]]:
        """Ask the replicas that have not `staged` these weights to make them ready."""
        requests = [
            PlacedRequest(encode_weight_request(weights.staged(rank)), weights.regions(rank))
            for rank in range(len(weights.ranks))
        ]
        return [
            (replica, incarnation, self._query(incarnation, requests))
            for replica, incarnation in self._settled()
            if (replica.spec.index, incarnation.number) not in staged
        ]

    def _settled(self) -> list[tuple[Replica, Incarnation]]:
        """The replicas that run requests; waits for those that are starting."""
        while True:
            replicas = [self._replicas[index] for index in self._scheduler.settled()]
            found = [(one, one.incarnation) for one in replicas if one.incarnation is not None]
            if found:  # else all have failed since
                return found

    def _discard(self) -> None:
        """Have the ranks discard what they have staged; ranks that are gone have nothing."""
        for replica in self._replicas:
            if replica.incarnation is not None:
                discard = PlacedRequest(encode_weight_request(DiscardWeights()))
                self._query(replica.incarnation, [discard] * len(replica.spec.ranks))

    def _ask(
        self, incarnation: Incarnation, requests: Sequence[PlacedRequest]
    ) -> list[WeightReply]:
        return self._query(incarnation, requests).replies()

    def _query(self, incarnation: Incarnation, requests: Sequence[PlacedRequest]) -> WeightQuery:
        return WeightQuery(incarnation, requests, self._loop, self._settings)


def _given_up(replica: Replica) -> RankFailed:
    return RankFailed(
        f"the weights stay as they were: ranks of replica {replica.spec.index} failed {_DEATHS} "
        f"times while they made new ones ready. The last time: {replica.failures.last}"
    )
