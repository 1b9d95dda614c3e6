"""onnxruntime alone on one model: `alone.py MODEL NPZ THREADS REQUESTS RESULT` prints each
request's seconds as JSON.

Inputs are the arrays of NPZ by name, or else as in_0; outputs go to RESULT as out_0, out_1, ...
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import onnxruntime as ort


def main() -> None:
    model, inputs, threads, requests, result = sys.argv[1:]
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = int(threads), 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays = np.load(inputs)
    names = [one.name for one in session.get_inputs()]
    feed = {name: arrays[name if name in arrays else "in_0"] for name in names}
    np.savez(result, **{f"out_{i}": one for i, one in enumerate(session.run(None, feed))})
    seconds = []
    for _ in range(int(requests)):
        start = time.perf_counter()
        session.run(None, feed)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
