"""Load by a local program: python connect_load.py NAME VALUES.npz SECONDS.

It connects to the orchestrator behind a server, by its name. Its input is an array of its own,
which is copied once; the output is in shared memory. See turns.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from turns import Call, take_turns_in_threads

import rankmesh


@contextmanager
def connected(name: str, values: Path) -> Iterator[Call]:
    """Requests through the connection of one program."""
    arrays = np.load(values)
    x, y = arrays["x"], arrays["y"]
    with rankmesh.connect(name) as client:

        def call() -> float:
            begun = time.monotonic()
            found = client.predict(x)["y"]
            seconds = time.monotonic() - begun
            assert np.array_equal(found, y), "the reply has other numbers than the input"
            return seconds

        yield call


def main() -> None:
    name, values, seconds = sys.argv[1:]
    take_turns_in_threads([connected(name, Path(values))], float(seconds))


if __name__ == "__main__":
    main()
