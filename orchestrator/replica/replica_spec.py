"""Replica spec: the ranks of one replica of a model, and what they run."""

from __future__ import annotations

from dataclasses import dataclass

from ...comm.job.placement import RankSpec
from ...comm.serving.orders import ServeJob
from ...rank_tables.table import RankTable
from ..config.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """Replica `index` of a model: `ranks`, numbered from 0 in the replica, and what each runs.

    Its collectives may take `collective_timeout` seconds. A rank `table` says which hosts its ranks
    are to have: those of replica 0 come first there.
    """

    index: int
    ranks: tuple[RankSpec, ...]
    job: ServeJob
    settings: ModelSettings
    collective_timeout: float
    table: RankTable | None = None
