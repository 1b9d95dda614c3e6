"""One contender's round trips: `orchestrator_calls.py WHO CASE FOLDER` prints the microseconds of
one (the median).

CASE is `4 KB`, `4 KB, 2 ms apart`, `16 MB` or `16 MB, 2 ranks`: a tensor goes to one process or
two, which hand it back. WHO is `channel` (our ring alone), `rankmesh`, `pipe` (multiprocessing,
with pickle), `pool` (ProcessPoolExecutor) or `ray`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np

SIZES = {"4 KB": 1 << 10, "4 KB, 2 ms apart": 1 << 10, "16 MB": 1 << 22, "16 MB, 2 ranks": 1 << 22}
_CALLS = {"4 KB": 2000, "4 KB, 2 ms apart": 400, "16 MB": 30, "16 MB, 2 ranks": 20}
_PAUSES = {"4 KB, 2 ms apart": 0.002}
"""Seconds without a request before each."""

_OURS = {"16 MB": 1000, "16 MB, 2 ranks": 1000}
Call = Callable[[], object]


@contextmanager
def with_channel(case: str, folder: str) -> Iterator[Call]:
    """The ring of orders between two processes, without queue, futures or threads."""
    from rankmesh.comm.serving.caller_slots import CallerSlots
    from rankmesh.comm.serving.orders import (
        Answer,
        OutputBuffer,
        OutputPart,
        Run,
        Stop,
        TensorRef,
        encode_order,
    )
    from rankmesh.comm.serving.ring import Ring

    fd, bell = Ring.create(1, 2), os.eventfd(0)
    seats = CallerSlots(CallerSlots.create(), spare=True)
    child = os.fork()
    if child == 0:
        ring, number = Ring(fd, bell, seats), 0
        while not isinstance(ring.take(number, 0), Stop):
            ring.reply(number, 0, Answer([TensorRef(0, (1024,))]))
            number += 1
        os._exit(0)
    ring, order = (
        Ring(fd, bell, seats),
        encode_order(
            Run((TensorRef(0, (1024,)),), (OutputPart(0, (0,), OutputBuffer(4096, 4096)),))
        ),
    )
    seat = seats.take()

    def call() -> None:
        number = ring.given
        ring.give(number, order, seat)
        while not ring.answered(number):
            seats.wait(seat)
        ring.answer(number, 0)

    yield call
    ring.give(ring.given, encode_order(Stop()))
    os.waitpid(child, 0)


@contextmanager
def with_rankmesh(case: str, folder: str) -> Iterator[Call]:
    """The public API, from the caller's thread: arrays of 4 KB, larger ones in place."""
    from rankmesh import Orchestrator

    model = f"{folder}/{case.split(',')[0].replace(' ', '')}"
    ranks = 2 if "2 ranks" in case else 1
    with Orchestrator(
        f"{model}_rank{{rank}}.onnx" if ranks == 2 else f"{model}.onnx", ranks
    ) as orchestrator:
        if SIZES[case] == SIZES["4 KB"]:
            given = {"x": np.ones(SIZES[case], np.float32)}
            yield lambda: orchestrator.predict(given)
        else:
            with orchestrator.buffers() as buffers:
                yield lambda: orchestrator.predict(buffers, results="all" if ranks == 2 else "once")


def echo(end: Connection) -> None:
    """A process of document 004 that does nothing with what it gets."""
    while (message := end.recv())[0] != "exit":
        end.send(("reply", message[1]))


@contextmanager
def with_pipe(case: str, folder: str) -> Iterator[Call]:
    """One Pipe per process, pickled arrays."""
    pipes = [Pipe() for _ in range(2 if "2 ranks" in case else 1)]
    processes = [Process(target=echo, args=(theirs,)) for _, theirs in pipes]
    for process in processes:
        process.start()
    array = np.ones(SIZES[case], np.float32)

    def call() -> None:
        for ours, _ in pipes:
            ours.send(("predict", array))
        for ours, _ in pipes:
            ours.recv()

    yield call
    for ours, _ in pipes:
        ours.send(("exit", None))
    for process in processes:
        process.join()


def same(array: Any) -> Any:
    """What a pool's process does."""
    return array


@contextmanager
def with_pool(case: str, folder: str) -> Iterator[Call]:
    """concurrent.futures' processes."""
    from concurrent.futures import ProcessPoolExecutor

    ranks, array = 2 if "2 ranks" in case else 1, np.ones(SIZES[case], np.float32)
    with ProcessPoolExecutor(ranks) as pool:
        yield lambda: [
            future.result() for future in [pool.submit(same, array) for _ in range(ranks)]
        ]


@contextmanager
def with_ray(case: str, folder: str) -> Iterator[Call]:
    """Ray's actors, one per rank; the array is put into its object store each time, as a new one
    would be.
    """
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    actor = ray.remote(num_cpus=0)(type("Echo", (), {"run": lambda self, array: array}))
    actors = [actor.remote() for _ in range(2 if "2 ranks" in case else 1)]
    array = np.ones(SIZES[case], np.float32)
    yield lambda: ray.get([one.run.remote(array) for one in actors])
    ray.shutdown()


CONTENDERS = {
    "channel": with_channel,
    "rankmesh": with_rankmesh,
    "pipe": with_pipe,
    "pool": with_pool,
    "ray": with_ray,
}


def main() -> None:
    who, case, folder = sys.argv[1:]
    calls = _OURS.get(case, _CALLS[case]) if who == "rankmesh" else _CALLS[case]
    seconds = []
    with CONTENDERS[who](case, folder) as call:
        for _ in range(max(3, calls // 10)):
            call()
        for _ in range(calls):
            if case in _PAUSES:
                time.sleep(_PAUSES[case])
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    print(median(seconds) * 1e6)


if __name__ == "__main__":
    main()
