"""Health of the server: tells whether a request that came now would be answered."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...comm.host.process_identity import ProcessStat
from ..orchestrator import Orchestrator
from ..status import RankStatus, Status

_FRESH = 0.2
"""Seconds for which one look at the ranks counts: probes and clients may ask often."""


class ModelHealth:
    """Which models answer: those with a replica whose ranks are all ready, and none is stopped."""

    def __init__(
        self, orchestrator: Orchestrator, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._answering: frozenset[str] = frozenset()
        self._looked = -_FRESH

    def ready(self, model: str) -> bool:
        """Whether a request to this model would be answered."""
        return model in self._look()

    def all_ready(self) -> bool:
        """Whether that is so for every model."""
        return len(self._look()) == len(self._orchestrator.models())

    def _look(self) -> frozenset[str]:
        now = self._clock()
        if now - self._looked >= _FRESH:
            self._answering = answering_models(self._orchestrator.status())
            self._looked = now
        return self._answering


def answering_models(status: Status) -> frozenset[str]:
    """The models of which some replica takes and answers requests."""
    if status.state == "draining":
        return frozenset()
    unfit = {(rank.model, rank.replica) for rank in status.ranks if not _fit(rank)}
    return frozenset(rank.model for rank in status.ranks if (rank.model, rank.replica) not in unfit)


def _fit(rank: RankStatus) -> bool:
    """Whether a rank is ready, and its process neither dead nor stopped by a signal."""
    if rank.state != "ready" or rank.pid is None:
        return False
    stat = ProcessStat.of(rank.pid)
    return stat is not None and not stat.dead and not stat.stopped
