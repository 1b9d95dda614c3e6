"""Ready replicas: finds the one with the least to do, however many there are."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from operator import attrgetter

from .batch import Batch
from .inflight import InflightBatches

_NUMBER = attrgetter("replica")
_Entry = tuple[int, int]
"""A load, and the number of a replica that had it when it was noted."""


class ReadyReplicas:
    """The replicas of a model that take orders, by their numbers. Not thread-safe: part of a
    Scheduler's state.

    A replica that may have less to do than before is noted; one that has more is found out when it
    is looked for. So nothing here takes longer with more replicas, but to go through them in order.
    """

    def __init__(self) -> None:
        self.in_order: list[InflightBatches] = []
        """All of them, by number."""

        self._numbered: dict[int, InflightBatches] = {}
        self._heap: list[_Entry] = []
        self._noted: set[_Entry] = set()
        """The entries of the heap."""

        self._ahead: dict[int, None] = {}
        """The numbers of those that may have batches ahead, in the order in which they got it."""

    def add(self, replica: InflightBatches) -> None:
        """A replica takes orders from now on."""
        place = bisect_left(self.in_order, replica.replica, key=_NUMBER)
        self.in_order.insert(place, replica)
        self._numbered[replica.replica] = replica
        for one in self.in_order if len(self.in_order) == 2 else (replica,):
            self.note(one)
            self.note_given(one)

    def remove(self, replica: InflightBatches) -> None:
        """A replica takes no more orders."""
        self.in_order.remove(replica)
        del self._numbered[replica.replica]
        self._ahead.pop(replica.replica, None)

    def note(self, replica: InflightBatches) -> None:
        """A replica may have less to do than before, or take orders that it did not take."""
        if len(self.in_order) == 1:  # no other is looked at
            return
        load = replica.load
        if load is None:
            return
        entry = load, replica.replica
        if entry not in self._noted:
            self._noted.add(entry)
            heappush(self._heap, entry)

    def least_loaded(self) -> InflightBatches | None:
        """The first of those with the least to do; None where none takes more."""
        if len(self.in_order) == 1:
            (only,) = self.in_order
            return None if only.load is None else only
        while self._heap:
            entry = self._heap[0]
            load, number = entry
            replica = self._numbered.get(number)
            if replica is not None and replica.load == load:
                return replica
            heappop(self._heap)
            self._noted.remove(entry)
            if replica is not None:
                self.note(replica)
        return None

    def note_given(self, replica: InflightBatches) -> None:
        """A replica has got a batch, or still has others ahead."""
        if len(self.in_order) > 1 and replica.ahead:
            self._ahead[replica.replica] = None

    def recall(self) -> Batch | None:
        """Take back a batch that a replica was given ahead; None where none has any."""
        while self._ahead:
            number = next(iter(self._ahead))
            del self._ahead[number]
            batch = self._numbered[number].recall()
            if batch is not None:
                self.note(self._numbered[number])
                self.note_given(self._numbered[number])
                return batch
        return None
