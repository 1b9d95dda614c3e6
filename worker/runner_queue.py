"""The requests that wait for a worker: first come, first served, and only so many."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..comm.counted import counted
from ..comm.errors import RankmeshError, UsageError

Array = NDArray[Any]
Results = dict[str, Array]


class Refused(RankmeshError):
    """Too many requests wait already."""


class Task:
    """One request: its inputs in order, and then its results or what went wrong.

    A worker that has it waits at `gate`, where there is one, before it runs.
    """

    def __init__(self, inputs: Sequence[Array], gate: threading.Barrier | None = None) -> None:
        self.inputs = inputs
        self.gate = gate
        self.abandoned = False
        self._results: Results = {}
        self._error: BaseException | None = None
        self._done = threading.Lock()  # a bare lock wakes its waiter sooner than an Event
        self._done.acquire()

    def finish(self, results: Results) -> None:
        """Hand the results to whoever waits."""
        self._results = results
        self._done.release()

    def fail(self, error: BaseException) -> None:
        """Raise the error where somebody waits."""
        self._error = error
        self._done.release()

    def wait(self) -> Results:
        """The results, once they are there; raises the worker's error."""
        try:
            self._done.acquire()
        except BaseException:  # an interrupt: nobody wants the results any more
            self.abandoned = True
            raise
        if self._error is not None:
            raise self._error
        return self._results


class TaskQueue:
    """Tasks for any number of workers. `limit` is how many may wait while all workers are busy."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Task] = deque()
        self._idle = 0
        self._closed = False
        self._changed = threading.Condition(threading.Lock())

    def put(self, task: Task) -> None:
        """Add a task; Refused where `limit` wait already, UsageError where the queue is closed."""
        with self._changed:
            if self._closed:
                raise UsageError("the runner is closed.")
            if len(self._waiting) - self._idle >= self._limit:
                raise Refused(f"all workers are busy and {counted(self._limit, 'request')} wait already: the service "
                              f"denies this one. Send it again later, or use more workers.")
            self._waiting.append(task)
            self._changed.notify()

    def take(self) -> Task | None:
        """The task that has waited longest, as soon as there is one; None once the queue is closed."""
        with self._changed:
            self._idle += 1
            while not self._waiting and not self._closed:
                self._changed.wait()
            self._idle -= 1
            return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Take no more tasks; workers finish those that wait, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
