"""Monitored rendezvous: watches the ranks of this host, for ranks that meet by MPI or TCP.

They have no supervisor in common. Those of one host share an arena.
"""

from __future__ import annotations

from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.host_peers import watch_processes
from .failure_monitor import FailureMonitor
from .rendezvous import ArenaRendezvous


class MonitoredRendezvous(ArenaRendezvous):
    """See Rendezvous. A subclass exchanges payloads and joins collectives."""

    def __init__(self, rank: Rank, timeout: float, arena: Arena, monitor: FailureMonitor) -> None:
        super().__init__(rank, arena, timeout, monitor.pending)
        self._monitor = monitor
        self._local = frozenset([rank.rank])

    def _watch(self, processes: dict[int, int]) -> None:
        """Watch the processes of this host's ranks, by rank."""
        self._local = frozenset(processes)
        self._monitor.processes = {
            r: process for r, process in processes.items() if r != self.rank.rank
        }
        watch_processes(self._monitor.processes, self._arena)
