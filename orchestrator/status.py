"""Status of an orchestrator: a snapshot of its models and ranks, taken without waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..comm.job_memory.progress import ProgressSnapshot
from ..comm.processes.rank_errors import stage_name
from .model_table import ModelVersions
from .replica.incarnation import Incarnation
from .replica.rank_status import ChainStatus, RankStatus, ReplicaOutage, Status, StepStatus
from .replica.replica import Replica
from .scheduling.replica_table import ReplicaCondition
from .served import Served


def status_of(serving: Iterable[ModelVersions], living: Sequence[Served]) -> Status:
    """The status of all `living` models; the current versions of those that are `serving` give the
    state. Takes no lock and never waits.
    """
    versions = list(serving)
    taking = {model for one in versions for model in one.all.values()}
    replicas = [(model, replica) for model in living for replica in model.replicas]
    return Status(
        _state([one.current for one in versions]),
        sum(replica.starts for _, replica in replicas),
        sum(model.waiting for model in living),
        tuple(
            _rank(model, replica, rank, model in taking)
            for model, replica in replicas
            for rank in range(len(replica.spec.ranks))
        ),
        _outages(replicas),
        tuple(_chain(one, versions) for one in living if one.steps),
        tuple(one for model in living if (one := model.decoder_status()) is not None),
    )


def _outages(replicas: Sequence[tuple[Served, Replica]]) -> tuple[ReplicaOutage, ...]:
    found = [
        ReplicaOutage(
            model.label, model.version, replica.spec.index, one.time, one.error, one.seconds
        )
        for model, replica in replicas
        for one in replica.outages.copy()  # the event loop's thread adds to it
    ]
    return tuple(sorted(found, key=lambda one: one.time))


def _chain(chain: Served, serving: Sequence[ModelVersions]) -> ChainStatus:
    numbers = {one.current.label: one.current.version for one in serving}
    return ChainStatus(
        chain.label,
        chain.version,
        tuple(
            StepStatus(name, numbers.get(name, 0) if version is None else version)
            for name, version in chain.steps
        ),
    )


def _state(models: Sequence[Served]) -> str:
    tables = [one.table for one in models if one.table is not None]
    conditions = {state.condition for table in tables for state in table.replicas}
    if any(table.stopped for table in tables):
        return "stopped"
    if any(table.admission.closing for table in tables):
        return "draining"
    for condition in (ReplicaCondition.STARTING, ReplicaCondition.RESTARTING):
        if condition in conditions:
            return str(condition.value)
    return "degraded" if ReplicaCondition.STOPPED in conditions else "ready"


def _rank(model: Served, replica: Replica, rank: int, serving: bool) -> RankStatus:
    state = replica.state
    incarnation = replica.incarnation
    specs = replica.spec.ranks if incarnation is None else incarnation.specs
    spec = specs[rank].rank
    pid, progress, report = None, None, None
    if incarnation is not None and not incarnation.over and rank < len(incarnation.processes):
        pid = incarnation.processes[rank].pid or None
        progress = _progress(incarnation, rank)
        report = incarnation.reports.get(rank)
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
        serving,
        replica.outage.waits_for,
        "" if report is None else report.collectives,
    )


def _progress(incarnation: Incarnation, rank: int) -> ProgressSnapshot | None:
    try:
        return incarnation.progress(rank)
    except IndexError:  # its memory is gone: the rank has ended since
        return None
