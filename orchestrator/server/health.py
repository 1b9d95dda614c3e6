"""Health of the server: tells whether a request that came now would be answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping

from ...comm.host.process_identity import ProcessStat
from ..orchestrator import Orchestrator
from ..replica.rank_status import RankStatus, Status
from ..requests.loaded_versions import LoadedVersions

_FRESH = 0.2
"""Seconds for which one look at the ranks counts: probes and clients may ask often."""


class ModelHealth:
    """Which models answer: those with a replica whose ranks are all ready, and none is stopped."""

    def __init__(
        self, orchestrator: Orchestrator, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._answering: frozenset[tuple[str, int]] = frozenset()
        self._looked = -_FRESH
        self._loaded: Mapping[str, LoadedVersions] = {}

    def ready(self, model: str, version: int | None = None) -> bool:
        """Whether a request to this version of a model, by default the current one, would be
        answered.
        """
        loaded = self._orchestrator.versions().get(model)
        if loaded is None:
            return False
        return (model, loaded.current if version is None else version) in self._look()

    def all_ready(self) -> bool:
        """Whether that is so for every model that is loaded."""
        return all(map(self.ready, self._orchestrator.versions()))

    def _look(self) -> frozenset[tuple[str, int]]:
        now = self._clock()
        loaded = self._orchestrator.versions()
        if now - self._looked >= _FRESH or loaded is not self._loaded:
            self._loaded = loaded
            self._answering = answering_models(self._orchestrator.status())
            self._looked = now
        return self._answering


def answering_models(status: Status) -> frozenset[tuple[str, int]]:
    """The versions of models of which some replica takes and answers requests, and those of the
    chains of which all steps are among them.
    """
    if status.state == "draining":
        return frozenset()
    ranks = [rank for rank in status.ranks if rank.serving]
    host = socket.gethostname()
    unfit = {_replica(rank) for rank in ranks if not _fit(rank, host)}
    answering = {(rank.model, rank.version) for rank in ranks if _replica(rank) not in unfit}
    for _ in status.chains:  # a chain may be a step of others, before which it may stand or not
        answering.update(
            (chain.model, chain.version)
            for chain in status.chains
            if all((step.model, step.version) in answering for step in chain.steps)
        )
    return frozenset(answering)


def _replica(rank: RankStatus) -> tuple[str, int, int]:
    return rank.model, rank.version, rank.replica


def _fit(rank: RankStatus, host: str) -> bool:
    """Whether a rank is ready, and its process neither dead nor stopped by a signal.

    Of another host than `host`, this one, an agent tells that; numbers of processes mean others.
    """
    if rank.state != "ready" or rank.pid is None:
        return False
    if rank.host != host:
        return True
    stat = ProcessStat.of(rank.pid)
    return stat is not None and not stat.dead and not stat.stopped
