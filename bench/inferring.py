"""One contender's requests: `inferring.py rankmesh|onnxruntime|mindspore MODEL NPZ THREADS RESULT`.

Feeds the arrays in_0, in_1, ... of NPZ, and writes the outputs to RESULT as out_0, out_1, ... Then,
for each number that it reads, it makes so many requests and prints each one's seconds as JSON.
Imports nothing but numpy and the contender: MindSpore's runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Request = Callable[[], Sequence[Array]]
_WARM_UP = 2


def with_rankmesh(path: str, inputs: list[Array], threads: int) -> Request:
    """The public API: what a user's script does."""
    from rankmesh import Context, Model, ModelType

    context = Context()
    context.target, context.cpu.thread_num = ["cpu"], threads
    model = Model()
    model.build_from_file(path, ModelType.MINDIR, context)
    return lambda: [tensor.get_data_to_numpy() for tensor in model.predict(inputs)]


def with_onnxruntime(path: str, inputs: list[Array], threads: int) -> Request:
    """onnxruntime as it is, with the same number of threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = (
        threads,
        1,
        3,
    )
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {slot.name: array for slot, array in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, feed)  # type: ignore[no-any-return]


def with_mindspore(path: str, inputs: list[Array], threads: int) -> Request:
    """MindSpore's own run of the file on the CPU."""
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU", runtime_num_threads=threads)
    network = ms.nn.GraphCell(ms.load(path))
    given = [ms.Tensor(array) for array in inputs]

    def request() -> list[Array]:
        results = network(*given)
        return [
            result.asnumpy() for result in (results if isinstance(results, tuple) else (results,))
        ]

    return request


def main() -> None:
    who, path, npz, threads, result = sys.argv[1:]
    arrays = np.load(npz)
    inputs = [
        arrays[f"in_{index}"]
        for index in range(sum(name.startswith("in_") for name in arrays.files))
    ]
    contender = {
        "rankmesh": with_rankmesh,
        "onnxruntime": with_onnxruntime,
        "mindspore": with_mindspore,
    }[who]
    request = contender(path, inputs, int(threads))
    for _ in range(_WARM_UP):
        outputs = request()
    np.savez(result, **{f"out_{index}": output for index, output in enumerate(outputs)})
    print(json.dumps([]), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            request()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
