"""Local target: a model of an orchestrator in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import psutil

from ....comm.arrays import Array
from ....comm.errors import RankmeshError
from ....orchestrator.config.settings import ModelSettings
from ....orchestrator.orchestrator import Orchestrator
from ....orchestrator.replica.rank_status import RankStatus
from ....orchestrator.scheduling.loop_caller import LoopCaller
from .observation import Observation, Setup, TimeSum
from .reply import Reply, RequestFailed
from .target import BenchedModel, chosen_model


class LocalTarget:
    """A model of an orchestrator, whose answers the asyncio loop of the bench takes itself."""

    protocol = "in process"

    def __init__(self, orchestrator: Orchestrator, name: str | None) -> None:
        """In the loop. Raises UsageError where there are several models and no name."""
        name = chosen_model(name, orchestrator.models())
        self.model = BenchedModel(name, "", orchestrator.inputs(name), orchestrator.outputs(name))
        self._orchestrator = orchestrator
        self._caller = orchestrator.loop_caller(asyncio.get_running_loop())
        self._inputs: Mapping[str, Array] = {}

    async def setup(self) -> Setup:
        """See Target."""
        name = self.model.name
        ranks = self._ranks()
        replicas = len({one.replica for one in ranks}) or 1  # a chain has none of its own
        settings = self._orchestrator.settings()[name]
        batching = isinstance(settings, ModelSettings) and settings.batching is not None
        return Setup(
            replicas,
            len(ranks) // replicas,
            len(os.sched_getaffinity(0)),
            batching,
            self.model.batchable,
        )

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        """See Target."""
        self._inputs = inputs

    def connection(self) -> LocalCaller:
        """See Target."""
        return LocalCaller(self._caller, self.model.name, self._inputs)

    def outputs(self, reply: Reply) -> Mapping[str, Array]:
        """See Target."""
        assert isinstance(reply, Mapping)
        return reply

    async def observe(self) -> Observation:
        """See Target."""
        seconds = self._orchestrator.version_metrics(self.model.name)["seconds"]
        queue, run = seconds["queue"], seconds["run"]
        ranks = self._ranks()
        return Observation(
            TimeSum(queue["count"], queue["sum"]),
            TimeSum(run["count"], run["sum"]),
            sum(one.run_seconds for one in ranks),
            sum(one.collective_seconds for one in ranks),
            sum(map(_processor_seconds, ranks)),
            psutil.cpu_times().idle,
        )

    async def close(self) -> None:
        """See Target."""
        self._caller.close()

    def _ranks(self) -> list[RankStatus]:
        name = self.model.name
        return [one for one in self._orchestrator.status().ranks if one.model == name]


class LocalCaller:
    """One caller of an orchestrator."""

    def __init__(self, caller: LoopCaller, model: str, inputs: Mapping[str, Array]) -> None:
        self._caller = caller
        self._model = model
        self._inputs = inputs

    async def ask(self, timeout: float) -> Mapping[str, Array]:
        """See BenchClient."""
        try:
            found = await self._caller.call(self._model, self._inputs, timeout, 0)
        except RankmeshError as error:
            raise RequestFailed(type(error).__name__, str(error)) from None
        assert isinstance(found, dict)
        return found

    async def close(self) -> None:
        """See BenchClient."""


def _processor_seconds(rank: RankStatus) -> float:
    """Of the rank's process; 0 where there is none."""
    if rank.pid is None:
        return 0.0
    try:
        times = psutil.Process(rank.pid).cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)
