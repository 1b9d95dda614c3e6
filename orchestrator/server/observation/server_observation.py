"""Server observation: one look at all models, ranks and memory, of which metrics are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....comm.host.process_memory import ProcessMemory
from ....comm.request_memory.owned_arena import ArenaUse
from ...replica.rank_status import RankStatus, ReplicaOutage
from ...requests.metrics import ModelMetrics
from .activity import ServerActivity


@dataclass(frozen=True, slots=True)
class ModelObservation:
    """One version of a model; `ready`: a request to it would be answered now."""

    name: str
    version: str
    ready: bool
    metrics: ModelMetrics
    batching: bool = False
    """Whether its current version runs several requests as one batch."""


@dataclass(frozen=True, slots=True)
class ServerObservation:
    """Plain data of one moment."""

    models: Sequence[ModelObservation]
    ranks: Sequence[RankStatus]
    shared_memory: Mapping[str, ArenaUse]
    activity: ServerActivity
    state: str = "ready"
    """The state of the orchestrator's status."""

    outages: Sequence[ReplicaOutage] = ()

    def memory(self) -> list[tuple[RankStatus, ProcessMemory]]:
        """The memory of each rank that has a process."""
        living = [(one, one.pid) for one in self.ranks if one.pid is not None]
        found = [(rank, ProcessMemory.of(pid)) for rank, pid in living]
        return [(rank, memory) for rank, memory in found if memory is not None]
