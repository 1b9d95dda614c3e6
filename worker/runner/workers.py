"""Worker threads of a runner: they start once, and the first request warms all of them up."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence

from ...comm.arrays import Array
from ...comm.errors import RankmeshError, UsageError
from ...comm.loggers import LOG
from ...comm.text import counted
from .programs import RunnerPrograms
from .threads import WorkerLayout

MAX_WAITING = 1000


class WorkerPool:
    """Worker threads of this process; `run` may be called by any number of threads at once."""

    def __init__(self, layout: WorkerLayout, programs: RunnerPrograms) -> None:
        self._tasks = TaskQueue(MAX_WAITING)
        self._workers = [
            RunnerWorker(i, self._tasks, programs, layout.cores_of(i))
            for i in range(layout.workers)
        ]
        self._warm = False
        self._warming = threading.Lock()
        self._pid = os.getpid()

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()

    def run(self, inputs: Sequence[Array]) -> Results:
        """The results of one request. Raises RunnerBusy where too many wait, and what the request
        itself raises.

        The first request goes to every worker, so that none makes a later one wait for memory or
        kernels; others that come meanwhile wait.
        """
        if os.getpid() != self._pid:
            raise UsageError(
                f"this runner's workers are threads of process {self._pid}, from which this one "
                f"was forked: build a runner in the process that uses it."
            )
        if not self._warm:
            with self._warming:
                if not self._warm:
                    return self._warmed_up(inputs)
        task = Task(inputs)
        self._tasks.put(task)
        return task.wait()

    def _warmed_up(self, inputs: Sequence[Array]) -> Results:
        gate = threading.Barrier(len(self._workers))  # each takes one, none takes two
        tasks = [Task(inputs, gate) for _ in self._workers]
        for task in tasks:
            self._tasks.put(task)
        results = [task.wait() for task in tasks]
        self._warm = True
        return results[0]

    def close(self) -> None:
        """End the threads; requests that wait are still answered. Does nothing in a process forked
        from this one.
        """
        if os.getpid() != self._pid:
            return
        self._tasks.close()
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()


class RunnerWorker(threading.Thread):
    """Worker `number` of a runner, bound to `cores` unless there are none."""

    def __init__(
        self, number: int, tasks: TaskQueue, programs: RunnerPrograms, cores: Sequence[int]
    ) -> None:
        super().__init__(name=f"rankmesh-runner-{number}", daemon=True)  # the runner's end ends it
        self._number = number
        self._tasks = tasks
        self._programs = programs
        self._cores = cores

    def run(self) -> None:
        """Take tasks and run them until the queue is closed."""
        self._bind()
        while (task := self._tasks.take()) is not None:
            self._do(task)
            del task  # or its arrays would live until the next one

    def _bind(self) -> None:
        if self._cores:
            try:
                os.sched_setaffinity(0, self._cores)  # in Linux, of this thread alone
            except OSError as error:
                LOG.warning(
                    "%s cannot be bound to the cores %s: %s", self.name, list(self._cores), error
                )

    def _do(self, task: Task) -> None:
        if task.gate is not None:
            task.gate.wait()
        if task.abandoned:
            return
        try:
            results = self._results(task)
        except BaseException as error:  # the waiting thread raises it, and this worker goes on
            task.fail(error)
        else:
            task.finish(results)

    def _results(self, task: Task) -> Results:
        program, feed = self._programs.for_request(self._number, task.inputs)
        return program.predict(feed)


Results = dict[str, Array]


class RunnerBusy(RankmeshError):
    """Too many requests wait already."""


class Task:
    """One request: its inputs in order, and later its results or its error.

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
        """Give the results to the waiting thread."""
        self._results = results
        self._done.release()

    def fail(self, error: BaseException) -> None:
        """Raise the error in the waiting thread."""
        self._error = error
        self._done.release()

    def wait(self) -> Results:
        """The results, once they are there; raises the worker's error."""
        try:
            self._done.acquire()
        except BaseException:  # an interrupt: the results have no taker
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
        """Add a task. Raises RunnerBusy where `limit` wait already, UsageError where the queue is
        closed.
        """
        with self._changed:
            if self._closed:
                raise UsageError("the runner is closed.")
            if len(self._waiting) - self._idle >= self._limit:
                raise RunnerBusy(
                    f"all workers are busy and {counted(self._limit, 'request')} wait already: the "
                    f"service denies this one. Send it again later, or use more workers."
                )
            self._waiting.append(task)
            self._changed.notify()

    def take(self) -> Task | None:
        """The task that has waited longest, as soon as there is one; None once the queue is
        closed."""
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
