"""The model inside a peer's own server: onnxruntime with one thread, or the echo of a small model.

The program of each peer imports this file alone, in an environment with numpy and onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def runnable(path: str) -> Callable[[Array], Array]:
    """From `x` to `y`. An echo gives its input back, without onnxruntime."""
    if Path(path).stem != "mobilenetv2":
        return lambda array: array
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    return lambda array: session.run(None, {"x": array.reshape(shape)})[0]
