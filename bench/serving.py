"""One contender under load: `serving.py runner|sessions|session MODEL NPZ WORKERS CLIENTS TASKS
RESULT`.

CLIENTS threads send TASKS requests each, one after the other: `runner` to a ModelParallelRunner of
WORKERS workers, `sessions` each to an onnxruntime session of its own, `session` all to one. One
thread per worker or session. The input is the array in_0 of NPZ. Prints the wall time of all and
the seconds of each request as JSON; an output goes to RESULT as out_0.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Request = Callable[[Array], Array]
_WARM_UP = 2


def with_runner(path: str, workers: int, clients: int) -> list[Request]:
    """The public API: what the tutorial of concurrent inference does."""
    from rankmesh import Context, ModelParallelRunner

    context = Context()
    context.target, context.cpu.thread_num, context.parallel.workers_num = ["cpu"], 1, workers
    runner = ModelParallelRunner()
    runner.build_from_file(path, context)

    def request(array: Array) -> Array:
        (tensor,) = runner.get_inputs()
        tensor.set_data_from_numpy(array)
        return runner.predict([tensor])[0].get_data_to_numpy()

    return [request] * clients


def with_sessions(path: str, workers: int, clients: int) -> list[Request]:
    """onnxruntime as it is: a session per client."""
    return [_session(path) for _ in range(clients)]


def with_session(path: str, workers: int, clients: int) -> list[Request]:
    """onnxruntime as it is: one session for all clients."""
    return [_session(path)] * clients


def _session(path: str) -> Request:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (name,) = (slot.name for slot in session.get_inputs())
    return lambda array: session.run(None, {name: array})[0]  # type: ignore[no-any-return]


def loaded(requests: list[Request], array: Array, tasks: int) -> tuple[float, list[float]]:
    """The wall time of all clients, and the seconds of each request."""
    seconds: list[float] = []
    start = threading.Barrier(len(requests) + 1)

    def client(request: Request) -> None:
        mine = array.copy()
        for _ in range(_WARM_UP):
            request(mine)
        start.wait()
        for _ in range(tasks):
            before = time.perf_counter()
            request(mine)
            seconds.append(time.perf_counter() - before)

    threads = [threading.Thread(target=client, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    start.wait()
    before = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - before, seconds


def main() -> None:
    who, path, npz, workers, clients, tasks, result = sys.argv[1:]
    array = np.load(npz)["in_0"]
    contender = {"runner": with_runner, "sessions": with_sessions, "session": with_session}[who]
    requests = contender(path, int(workers), int(clients))
    wall, seconds = loaded(requests, array, int(tasks))
    np.savez(result, out_0=requests[0](array))
    print(json.dumps([wall, seconds]))


if __name__ == "__main__":
    main()
