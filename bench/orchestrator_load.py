"""One contender under load: `orchestrator_load.py WHO MODEL NPZ CLIENTS TASKS` prints requests per
second.

WHO is `rankmesh`, an orchestrator with two replicas of one thread that CLIENTS threads send TASKS
requests each; or `buffers`, the same where each client has written its array in place; or
`processes`, two processes with a plain onnxruntime session of one thread each, which run as many
requests in all, always of the same array.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from multiprocessing import Barrier, Process
from typing import Any

import numpy as np

_WARM_UP = 5


def plain(path: str, array: Any, tasks: int, barrier: Any) -> None:
    """One process with a session of its own."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: array}
    for _ in range(_WARM_UP):
        session.run(None, feed)
    barrier.wait()
    for _ in range(tasks):
        session.run(None, feed)
    barrier.wait()


def with_processes(path: str, array: Any, clients: int, tasks: int) -> float:
    """Two processes, without anybody between them and their requests."""
    barrier = Barrier(3)
    each = clients * tasks // 2
    processes = [Process(target=plain, args=(path, array, each, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - start
    for process in processes:
        process.join()
    return 2 * each / seconds


def with_rankmesh(path: str, array: Any, clients: int, tasks: int, in_place: bool = False) -> float:
    """The public API."""
    from rankmesh import Orchestrator

    barrier = threading.Barrier(clients + 1)
    with Orchestrator(path, replicas=2, threads=1) as orchestrator:

        def client() -> None:
            with orchestrator.buffers() as buffers:
                if in_place:
                    next(iter(buffers.values()))[...] = array
                given = buffers if in_place else array
                for _ in range(2 * _WARM_UP):
                    orchestrator.predict(given)
                barrier.wait()
                for _ in range(tasks):
                    orchestrator.predict(given)
                barrier.wait()

        for _ in range(clients):
            threading.Thread(target=client).start()
        barrier.wait()
        start = time.perf_counter()
        barrier.wait()
        return clients * tasks / (time.perf_counter() - start)


def main() -> None:
    who, path, npz, clients, tasks = sys.argv[1:]
    array = np.load(npz)["in_0"]
    contender = {
        "rankmesh": with_rankmesh,
        "buffers": partial(with_rankmesh, in_place=True),
        "processes": with_processes,
    }[who]
    print(contender(path, array, int(clients), int(tasks)))


if __name__ == "__main__":
    main()
