"""Ray Serve deployment: each of its replicas is one orchestrator with ranks of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from ray import serve

import rankmesh

Arrays = dict[str, npt.NDArray[Any]]


@serve.deployment(num_replicas=2, max_ongoing_requests=64, health_check_period_s=2)
class Model:
    """One model. Ray Serve chooses the replica of a request; queue, batches and replays are
    Rankmesh's.
    """

    def __init__(self, path: str, ranks: int) -> None:
        """Start the ranks on the host where Ray has put this replica."""
        self._orchestrator = rankmesh.Orchestrator(path, ranks=ranks)

    async def __call__(self, inputs: Arrays) -> Arrays:
        """The outputs by name, as arrays that own their memory: Ray copies them anyway."""
        outputs = await self._orchestrator.predict_async(inputs)
        return {name: np.array(array) for name, array in outputs.items()}

    def check_health(self) -> None:
        """Ray Serve replaces a replica for which this raises; ranks that start again are none."""
        state = self._orchestrator.status().state
        if state == "stopped":
            raise RuntimeError("the ranks died too often: their restart budget is used up")

    def __del__(self) -> None:
        """Ray Serve ends a replica: the ranks end in order."""
        self._orchestrator.close()


def application(arguments: dict[str, str]) -> serve.Application:
    """`serve run deployment:application path=MODEL ranks=2`."""
    ranks = int(arguments.get("ranks", "1"))
    return Model.options(ray_actor_options={"num_cpus": ranks}).bind(arguments["path"], ranks)
