"""Monitored rendezvous: watches the ranks of this host, for ranks that meet by MPI or TCP.

They have no supervisor in common. Those of one host share an arena.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..collectives.backend import Membership
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.host_peers import watch_processes
from ..job_memory.progress import Progress, Stage
from .failure_monitor import FailureMonitor
from .rendezvous import Groups, Pairs


class MonitoredRendezvous(ABC):
    """See Rendezvous. A subclass exchanges payloads and joins collectives."""

    def __init__(self, rank: Rank, timeout: float, arena: Arena, monitor: FailureMonitor) -> None:
        self.rank = rank
        self._timeout = timeout
        self._arena = arena
        self._monitor = monitor
        self._progress = Progress(arena, rank.rank)
        self._local = frozenset([rank.rank])

    def enter(self, stage: Stage) -> None:
        """See Rendezvous.enter."""
        self._progress.stage = stage

    @abstractmethod
    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange."""

    def _watch(self, processes: dict[int, int]) -> None:
        """Watch the processes of this host's ranks, by rank."""
        self._local = frozenset(processes)
        self._monitor.processes = {
            r: process for r, process in processes.items() if r != self.rank.rank
        }
        watch_processes(self._monitor.processes, self._arena)

    def _membership(self, groups: Groups, pairs: Pairs, address: str = "") -> Membership:
        """This rank's part in collectives; `address` is that of rank 0's host."""
        return Membership(
            rank=self.rank,
            arena=self._arena,
            exchange=self.exchange,
            groups=groups,
            pairs=pairs,
            timeout=self._timeout,
            local=self._local,
            pending=self._monitor.pending,
            address=address,
        )
