"""The orchestrator without a server:
python in_process.py MODEL VALUES.npz REPLICAS CLIENTS SECONDS.

Each client is a thread that calls `predict`. See turns.py.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
from turns import take_turns_in_threads

import rankmesh

_TOLERANCE = 1e-5


def main() -> None:
    model, values, replicas, clients, seconds = sys.argv[1:]
    arrays: Any = np.load(values)
    x, y = arrays["x"], arrays["y"]
    with rankmesh.Orchestrator(model, replicas=int(replicas), threads=1) as orchestrator:

        def call() -> float:
            begun = time.monotonic()
            found = orchestrator.predict(x)["y"]
            taken = time.monotonic() - begun
            np.testing.assert_allclose(found, y, rtol=0, atol=_TOLERANCE)
            return taken

        take_turns_in_threads([nullcontext(call)] * int(clients), float(seconds))


if __name__ == "__main__":
    main()
