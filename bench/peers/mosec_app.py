"""mosec with one model: MODEL=FILE WORKERS=N python mosec_app.py --port PORT.

Its command line is mosec's, which its workers get again. Requests and replies are the bytes of
the tensors.
"""

from __future__ import annotations

import os
from typing import Any

import mosec
import numpy as np
from runnable import runnable


class Model(mosec.Worker):  # type: ignore[misc]
    def __init__(self) -> None:
        self.run = runnable(os.environ["MODEL"])

    def deserialize(self, data: bytes) -> Any:
        return np.frombuffer(data, np.float32)

    def forward(self, data: Any) -> Any:
        return self.run(data)

    def serialize(self, data: Any) -> bytes:
        return bytes(data.tobytes())


if __name__ == "__main__":
    server = mosec.Server()
    server.append_worker(Model, num=int(os.environ["WORKERS"]))
    server.run()
