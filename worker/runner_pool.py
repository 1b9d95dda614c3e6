"""The workers of a runner and their queue: started once, warmed up by the first request, ended with the runner."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from ..comm.errors import UsageError
from .runner_programs import Array, Programs
from .runner_queue import Results, Task, TaskQueue
from .runner_threads import Crew
from .runner_worker import Worker

_MOST_WAITING = 1000


class WorkerPool:
    """Worker threads of this process; `run` may be called by any number of threads at once."""

    def __init__(self, crew: Crew, programs: Programs) -> None:
        self._tasks = TaskQueue(_MOST_WAITING)
        self._workers = [Worker(i, self._tasks, programs, crew.cores_of(i)) for i in range(crew.workers)]
        self._warm = False
        self._warming = threading.Lock()
        self._pid = os.getpid()

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()

    def run(self, inputs: Sequence[Array]) -> Results:
        """The results of one request. Raises Refused where too many wait, and what the request itself raises.

        The first request goes to every worker, so that none makes a later one wait for memory or kernels; others
        that come meanwhile wait.
        """
        if os.getpid() != self._pid:
            raise UsageError(f"this runner's workers are threads of process {self._pid}, from which this one was "
                             f"forked: build a runner in the process that uses it.")
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
        """End the threads; requests that wait are still answered. Does nothing in a process forked from this one."""
        if os.getpid() != self._pid:
            return
        self._tasks.close()
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()
