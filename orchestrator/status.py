"""Status of an orchestrator: one snapshot, for people and monitors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import msgspec

from ..comm.job_memory.progress import ProgressSnapshot
from ..comm.processes.rank_errors import stage_name
from .replica.incarnation import Incarnation
from .replica.replica import Replica
from .scheduling.replica_table import ReplicaCondition
from .served_model import ServedModel


class RankStatus(msgspec.Struct, frozen=True):
    """One rank; `pid` is the process that serves it, None while it is being replaced.

    `weights_version` is how many updates of weights are in effect for the requests that the rank is
    given now. `version` is the model's. `run_seconds` is how long the process has run requests so
    far, and `collective_seconds` how long of that it was in collectives.
    """

    model: str
    replica: int
    rank: int
    pid: int | None
    host: str
    device: int
    state: str
    stage: str
    restarts: int
    last_error: str
    weights_version: int
    version: int = 1
    run_seconds: float = 0.0
    collective_seconds: float = 0.0


class Status(msgspec.Struct, frozen=True):
    """State of all models: `starts` counts the starts of replicas, `queue_depth` waiting requests.

    `state` is the first of these that is so, for the versions of models that answer requests
    without a version. stopped: some model has no replica left; draining: no
    more requests are taken; starting, restarting: some replica is; degraded: some replica is not
    started again, and others of its model answer; ready.
    """

    state: str
    starts: int
    queue_depth: int
    ranks: tuple[RankStatus, ...]

    @property
    def epoch(self) -> int:
        """The old name of `starts`."""
        warnings.warn(
            "Status.epoch is now Status.starts: it counts starts of replicas.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.starts

    def to_dict(self) -> dict[str, Any]:
        """The status for JSON; `epoch` is the old key of `starts`, and has the same value."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {**found, "epoch": self.starts}


def status_of(current: Sequence[ServedModel], living: Sequence[ServedModel]) -> Status:
    """The status of all `living` models, whose `current` versions give the state; takes no lock and
    never waits.
    """
    replicas = [(model, replica) for model in living for replica in model.replicas]
    return Status(
        _state(current),
        sum(replica.starts for _, replica in replicas),
        sum(model.dispatcher.scheduler.waiting for model in living),
        tuple(
            _rank(model, replica, rank)
            for model, replica in replicas
            for rank in range(len(replica.spec.ranks))
        ),
    )


def _state(models: Sequence[ServedModel]) -> str:
    schedulers = [model.dispatcher.scheduler for model in models]
    conditions = {state.condition for scheduler in schedulers for state in scheduler.replicas}
    if any(scheduler.stopped for scheduler in schedulers):
        return "stopped"
    if any(scheduler.admission.closing for scheduler in schedulers):
        return "draining"
    for condition in (ReplicaCondition.STARTING, ReplicaCondition.RESTARTING):
        if condition in conditions:
            return str(condition.value)
    return "degraded" if ReplicaCondition.STOPPED in conditions else "ready"


def _rank(model: ServedModel, replica: Replica, rank: int) -> RankStatus:
    spec = replica.spec.ranks[rank].rank
    state = replica.state
    incarnation = replica.incarnation
    pid, progress = None, None
    if incarnation is not None and not incarnation.over and rank < len(incarnation.processes):
        pid = incarnation.processes[rank].pid
        progress = _progress(incarnation, rank)
    return RankStatus(
        model.label,
        replica.spec.index,
        rank,
        pid,
        spec.host,
        spec.device,
        state.condition.value,
        "ended" if progress is None else stage_name(progress),
        replica.restarts,
        replica.failures.last,
        state.weights_version,
        model.version,
        0.0 if progress is None else progress.run_seconds,
        0.0 if progress is None else progress.collective_seconds,
    )


def _progress(incarnation: Incarnation, rank: int) -> ProgressSnapshot | None:
    try:
        return incarnation.progress(rank)
    except IndexError:  # its memory is gone: the rank has ended since
        return None
