"""Program on a Ray cluster: MODEL. Prints whether a rank of two cores answered, and where."""

from __future__ import annotations

import sys

import numpy as np

from rankmesh import Orchestrator

X = np.arange(4, dtype=np.float32).reshape(1, 4)


def main(model: str) -> None:
    with Orchestrator(model, ranks=1, threads=2, launcher="ray") as served:
        answer = served.predict({"x": X, "bias": np.zeros(1, np.float32)})["y"]
        print("answered", np.array_equal(answer, 2 * X), served.status().ranks[0].host)


if __name__ == "__main__":
    main(sys.argv[1])
