"""Program of a test: one replica on both hosts of a Ray cluster, of which a rank is killed.

    python ray_span_program.py MODEL NETWORK

It writes, as JSON, the hosts of the ranks, whether all answers are right, and the outages.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np

from rankmesh import Orchestrator

RANKS = 4


def main(model: str, network: str) -> None:
    """Start, ask, kill the last rank, ask again, and tell."""
    given = {"x": np.arange(4, dtype=np.float32), "rounds": np.array(0), "shape": np.array([4])}
    right = []
    with Orchestrator(model, threads=1, launcher="ray", trusted_networks=[network]) as served:
        right.append(served.predict(given)["y"].tolist())
        ranks = served.status().ranks
        assert ranks[-1].pid is not None
        os.kill(ranks[-1].pid, signal.SIGKILL)  # the hosts share the table of processes
        right += [served.predict(given)["y"].tolist() for _ in range(10)]
        outages = [one.error for one in served.status().outages]
    expected = (given["x"] * 2 * RANKS).tolist()
    told = {
        "hosts": [one.host for one in ranks],
        "right": [one == expected for one in right],
        "outages": outages,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
