"""One snapshot of an orchestrator, for people and monitors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .dispatch import Dispatcher
from .epoch import Epoch
from .group import Group
from .owner import Condition
from .verdict import stage_of


class RankStatus(msgspec.Struct, frozen=True):
    """One rank; `pid` is the process that serves it, None while it is being replaced.

    `weights_version` is how many updates of weights are in effect for the requests that it is given now.
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


class Status(msgspec.Struct, frozen=True):
    """`epoch` counts starts of groups; `state` is the first of these that is so.

    stopped: some model has no replica left; draining; starting, restarting: some replica; degraded: some replica is not
    started again, and others of its model answer; ready.
    """

    state: str
    epoch: int
    queue_depth: int
    ranks: tuple[RankStatus, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def status_of(dispatchers: Iterable[Dispatcher]) -> Status:
    """What is known now; takes no lock."""
    all_of_them = list(dispatchers)
    groups = [(one.settings.label, group) for one in all_of_them for group in one.groups]
    return Status(
        _state(all_of_them, [group for _, group in groups]), sum(group.epochs for _, group in groups),
        sum(len(one.queue) for one in all_of_them),
        tuple(_rank(model, group, rank) for model, group in groups for rank in range(len(group.ranks))))


def _state(dispatchers: list[Dispatcher], groups: list[Group]) -> str:
    conditions = {group.condition for group in groups}
    if any(all(group.condition is Condition.STOPPED for group in one.groups) for one in dispatchers):
        return str(Condition.STOPPED.value)
    if any(one.standing.closing for one in dispatchers):
        return "draining"
    for condition in (Condition.STARTING, Condition.RESTARTING):
        if condition in conditions:
            return str(condition.value)
    return "degraded" if Condition.STOPPED in conditions else str(Condition.READY.value)


def _rank(model: str, group: Group, rank: int) -> RankStatus:
    spec, epoch = group.ranks[rank].rank, group.epoch
    living = epoch is not None and not epoch.over and rank < len(epoch.processes)
    return RankStatus(
        model, group.index, rank, epoch.processes[rank].pid if epoch and living else None, spec.host, spec.device,
        group.condition.value, _stage(epoch, rank) if epoch and living else "ended", group.restarts,
        group.failures.last, group.edition.version)


def _stage(epoch: Epoch, rank: int) -> str:
    try:
        return stage_of(epoch.progress(rank))
    except IndexError:  # it has ended since we looked
        return "ended"
