"""Program of a test: one replica on both hosts of a Ray cluster, of which a rank is killed.

    python ray_span_program.py MODEL RANKS NETWORK

With fewer than four ranks something else takes a core of each host. It writes, as JSON, the hosts
of the ranks, whether all answers are right, and the outages.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

from rankmesh import Orchestrator

HOSTS = CORES = 2


class Tenant:
    """Takes a core."""

    def here(self) -> None:
        """Answer once it runs."""


def take_a_core_of_each_host() -> list[Any]:
    """Actors of Ray, each on another host."""
    import ray

    ray.init("auto", log_to_driver=False)
    start = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Tenant).remote
    tenants = [start() for _ in range(HOSTS)]
    ray.get([one.here.remote() for one in tenants])
    return tenants


def main(model: str, ranks: int, network: str) -> None:
    """Start, ask, kill the last rank, ask again, and tell."""
    tenants = take_a_core_of_each_host() if ranks < HOSTS * CORES else []
    given = {"x": np.arange(4, dtype=np.float32), "rounds": np.array(0), "shape": np.array([4])}
    right = []
    settings = {"trusted_networks": [network], "host_timeout": 20.0, "start_timeout": 250.0}
    with Orchestrator(model, threads=1, launcher="ray", **settings) as served:  # type: ignore[arg-type]
        right.append(served.predict(given)["y"].tolist())
        started = served.status().ranks
        assert started[-1].pid is not None
        os.kill(started[-1].pid, signal.SIGKILL)  # the hosts share the table of processes
        right += [served.predict(given)["y"].tolist() for _ in range(10)]
        outages = [one.error for one in served.status().outages]
    expected = (given["x"] * 2 * ranks).tolist()
    told = {
        "tenants": len(tenants),
        "hosts": [one.host for one in started],
        "right": [one == expected for one in right],
        "outages": outages,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
