from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rankmesh import RankmeshError
from rankmesh.worker.runner.workers import RunnerBusy, Task, TaskQueue

pytestmark = pytest.mark.pure

DEADLINE = 20.0


def task(number: int) -> Task:
    return Task([np.array(number)])


def number(one: Task | None) -> int:
    assert one is not None
    return int(one.inputs[0])


@contextmanager
def taker(queue: TaskQueue) -> Iterator[tuple[threading.Thread, list[int]]]:
    """A thread that takes tasks until the queue is closed, and the numbers of those it took."""
    taken: list[int] = []

    def take() -> None:
        while (one := queue.take()) is not None:
            taken.append(number(one))
            one.finish({})

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield thread, taken
    finally:
        queue.close()
        thread.join(DEADLINE)


def test_tasks_are_taken_in_the_order_in_which_they_came() -> None:
    queue = TaskQueue(10)
    for i in range(5):
        queue.put(task(i))
    assert [number(queue.take()) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_full_queue_refuses_and_says_so() -> None:
    queue = TaskQueue(3)
    for i in range(3):
        queue.put(task(i))
    with pytest.raises(RunnerBusy, match="3 requests wait already: the service denies this one"):
        queue.put(task(3))
    assert number(queue.take()) == 0
    queue.put(task(4))  # there is room again


def test_an_idle_worker_does_not_count_as_waiting() -> None:
    """With a limit of 0 nobody may wait, but an idle worker takes a task at once."""
    queue = TaskQueue(0)
    with taker(queue) as (_, taken):
        for i in range(50):
            one = task(i)
            while True:
                try:
                    queue.put(one)
                    break
                except RunnerBusy:  # the worker is on its way back to the queue
                    continue
            one.wait()
    assert taken == list(range(50))


def test_a_closed_queue_ends_its_workers_after_the_tasks_that_wait() -> None:
    queue = TaskQueue(10)
    for i in range(3):
        queue.put(task(i))
    queue.close()
    with taker(queue) as (thread, taken):
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert taken == [0, 1, 2]
    with pytest.raises(RankmeshError, match="closed"):
        queue.put(task(3))


def test_whoever_waits_gets_the_results_or_the_error() -> None:
    one, other = task(0), task(1)
    one.finish({"y": np.ones(1)})
    assert one.wait()["y"] == 1
    other.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        other.wait()
