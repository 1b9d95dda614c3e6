"""One worker of a runner: a thread that takes tasks and runs them with programs of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence

from .runner_programs import Programs
from .runner_queue import Results, Task, TaskQueue

_LOG = logging.getLogger("rankmesh")


class Worker(threading.Thread):
    """Worker `number` of a runner, bound to `cores` unless there are none."""

    def __init__(self, number: int, tasks: TaskQueue, programs: Programs, cores: Sequence[int]) -> None:
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
                _LOG.warning("%s cannot be bound to the cores %s: %s", self.name, list(self._cores), error)

    def _do(self, task: Task) -> None:
        if task.gate is not None:
            task.gate.wait()
        if task.abandoned:
            return
        try:
            results = self._results(task)
        except BaseException as error:  # whoever waits gets it, and this worker goes on
            task.fail(error)
        else:
            task.finish(results)

    def _results(self, task: Task) -> Results:
        program, feed = self._programs.for_request(self._number, task.inputs)
        return program.predict(feed)
