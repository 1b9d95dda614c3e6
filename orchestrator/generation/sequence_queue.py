"""Sequence queue: texts that wait for a replica with room, and all that have not ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from ...comm.errors import Closed, DeadlineExceeded, QueueFull, RankmeshError
from ..event_loop.loop import Alarm, EventLoopThread
from ..requests.metrics import RequestCounters
from .sequence import Sequence


class SequenceQueue:
    """The sequences of one decoder; for any thread."""

    def __init__(self, limit: int, loop: EventLoopThread) -> None:
        """At most `limit` sequences wait. The thread of `loop` ends those whose time is over."""
        self.counters = RequestCounters()
        self.wake: Callable[[], None] = lambda: None
        """Called when a sequence may be taken, or has ended."""

        self._limit = limit
        self._deadline = Alarm(loop, self.expire)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._open: dict[int, Sequence] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, sequence: Sequence) -> None:
        """Have a sequence wait. Raises QueueFull."""
        with self._lock:
            full = len(self._waiting) >= self._limit
            if not full:
                self._open[sequence.id] = sequence
                self._push(sequence)
        if full:
            raise QueueFull(
                f"{self._limit} texts wait already, as many as may (queue_limit): send this one "
                "later, or to another."
            )
        self.counters.count("accepted")
        if sequence.deadline < float("inf"):
            self._deadline.at(sequence.deadline)
        self.wake()

    def put_back(self, sequence: Sequence) -> None:
        """Have a sequence wait again, as its replica is gone: before all that came later."""
        sequence.leave()
        self.counters.count("replayed")
        with self._lock:
            if not sequence.over:
                self._push(sequence)
        self.wake()

    def take(self) -> Sequence | None:
        """The next sequence; None where none waits."""
        with self._lock:
            while self._waiting:
                sequence = heappop(self._waiting)[2]
                if not sequence.over:
                    self.counters.queue.observe(time.monotonic() - sequence.submitted)
                    return sequence
        return None

    def expire(self) -> None:
        """End the sequences whose time is over."""
        now = time.monotonic()
        for sequence in [*self._open.values()]:
            if sequence.deadline > now:
                self._deadline.at(sequence.deadline if sequence.deadline < float("inf") else None)
                continue
            sequence.fail(
                DeadlineExceeded(
                    f"the text has {len(sequence.tokens)} of {sequence.most} tokens after "
                    f"{now - sequence.submitted:.3g} s, its timeout. Give a longer timeout, ask "
                    "for fewer tokens, or add replicas."
                )
            )

    def ended(self, sequence: Sequence, error: RankmeshError | None) -> None:
        """Forget a sequence, which has ended."""
        seconds = time.monotonic() - sequence.submitted
        if error is None:
            self.counters.total.observe(seconds)
        elif isinstance(error, Closed):
            self.counters.count("cancelled")
        else:
            self.counters.failed(error)
        with self._lock:
            self._open.pop(sequence.id, None)
            if any(one[2] is sequence for one in self._waiting):
                self._waiting = [one for one in self._waiting if one[2] is not sequence]
                heapify(self._waiting)
            self._changed.notify_all()
        self.wake()

    def fail_all(self, error: Callable[[], RankmeshError]) -> None:
        """End all with an error, one for each."""
        for sequence in [*self._open.values()]:
            sequence.fail(error())

    def wait_idle(self, seconds: float | None) -> bool:
        """Wait until none is left, at most `seconds`; whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, seconds)

    def _push(self, sequence: Sequence) -> None:
        heappush(self._waiting, (-sequence.priority, sequence.id, sequence))
