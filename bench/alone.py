"""onnxruntime alone on one model: `alone.py MODEL NPZ THREADS REQUESTS RESULT` prints each
request's seconds as JSON.

The input is the array in_0 of NPZ; the output goes to RESULT as out_0.
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
    feed = {"x": np.load(inputs)["in_0"]}
    (output,) = session.run(None, feed)
    np.savez(result, out_0=output)
    seconds = []
    for _ in range(int(requests)):
        start = time.perf_counter()
        session.run(None, feed)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
