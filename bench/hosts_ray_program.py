"""A process of bench/hosts_orchestrator.py: asks an actor of Ray on the other host.

ADDRESS of the cluster; it runs in Ray's environment, which needs numpy and nothing of Rankmesh.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import numpy as np
import ray
from hosts_orchestrator_program import CALLS, SMALL, timed


class Head:
    """Gives the negatives of the first numbers, as the models of the other contenders do."""

    def run(self, array: Any) -> Any:
        """4 KB."""
        return -array[: SMALL // 4]


def main(address: str) -> None:
    """The round trips of an actor's method."""
    ray.init(address, log_to_driver=False, logging_level="error")
    actor = ray.remote(num_cpus=0, resources={"far": 1})(Head).remote()
    found = {}
    for size, calls in CALLS.items():
        array = np.ones(size // 4, np.float32)
        found[size] = timed(partial(_ask, actor, array), calls)
    print(json.dumps(found), flush=True)


def _ask(actor: Any, array: Any) -> Any:
    return ray.get(actor.run.remote(array), timeout=60)


if __name__ == "__main__":
    main(sys.argv[1])
