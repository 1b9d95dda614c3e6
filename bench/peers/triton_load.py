"""Load by tritonclient: python triton_load.py PORT KIND VALUES.npz CLIENTS SECONDS PREFIX.

KIND is `http` or `grpc`, or `memory`: http with the tensors in system shared memory, whose keys
begin with PREFIX. Each client is one of tritonclient's, in a thread of its own. See turns.py.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from turns import Call, take_turns_in_threads

_TOLERANCE = 1e-5


class Asker:
    """One of tritonclient's clients, and its request."""

    def __init__(self, kind: str, port: int, values: Path) -> None:
        module = importlib.import_module(f"tritonclient.{kind}")
        arrays = np.load(values)
        self.x, self.y = arrays["x"], arrays["y"]
        self.client = module.InferenceServerClient(f"127.0.0.1:{port}")
        self.input = module.InferInput("x", list(self.x.shape), "FP32")
        self.wished = module.InferRequestedOutput("y")
        self._model = values.stem
        self._first: Any = None

    def through_connection(self) -> float:
        """One request with its tensors; its seconds."""
        begun = time.monotonic()
        found = self.infer().as_numpy("y")
        seconds = time.monotonic() - begun
        self.check(found)
        return seconds

    def infer(self) -> Any:
        """The client's call."""
        return self.client.infer(self._model, [self.input], outputs=[self.wished])

    def check(self, found: Any) -> None:
        """Compare the first output with onnxruntime's, all others with the first."""
        if self._first is None:
            np.testing.assert_allclose(found, self.y, rtol=0, atol=_TOLERANCE)
            self._first = np.array(found)
        assert np.array_equal(found, self._first), "the reply has other numbers than the first"


@contextmanager
def over_network(kind: str, port: int, values: Path) -> Iterator[Call]:
    """Requests whose tensors go through the connection."""
    asker = Asker(kind, port, values)
    asker.input.set_data_from_numpy(asker.x)
    yield asker.through_connection
    asker.client.close()


@contextmanager
def through_memory(port: int, values: Path, prefix: str) -> Iterator[Call]:
    """Requests whose tensors are in one region: the input, and the output behind it. The output is
    wiped between requests.
    """
    from tritonclient.utils import shared_memory as memory

    asker = Asker("http", port, values)
    x, y = asker.x, asker.y
    size, key = x.nbytes + y.nbytes, f"{prefix}-{os.getpid()}"
    name = key.strip("/")
    region = memory.create_shared_memory_region(name, key, size)
    try:
        memory.set_shared_memory_region(region, [x])
        asker.client.register_system_shared_memory(name, key, size)
        asker.input.set_shared_memory(name, x.nbytes)
        asker.wished.set_shared_memory(name, y.nbytes, x.nbytes)
        output = memory.get_contents_as_numpy(region, np.float32, y.shape, x.nbytes)

        def call() -> float:
            output[...] = 0
            begun = time.monotonic()
            asker.infer()
            seconds = time.monotonic() - begun
            asker.check(output)
            return seconds

        yield call
        asker.client.unregister_system_shared_memory(name)
        asker.client.close()
    finally:
        memory.destroy_shared_memory_region(region)


def main() -> None:
    port, kind, file, count, seconds, prefix = sys.argv[1:]
    values = Path(file)
    clients = [
        through_memory(int(port), values, f"{prefix}{number}")
        if kind == "memory"
        else over_network(kind, int(port), values)
        for number in range(int(count))
    ]
    take_turns_in_threads(clients, float(seconds))


if __name__ == "__main__":
    main()
