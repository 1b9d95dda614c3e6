"""Chance in a simulation: how long requests, starts and lives take, as a seed decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ClusterSettings:
    """Hosts of `ranks_per_host` ranks. Times are means in seconds; None: it never happens. They
    are exponentially distributed, but for `start`, which varies by half of it.

    `service`: of a request in the ranks. `start`: from the start of ranks until they are ready.
    `rank_life`, `host_life`: until a rank or a host fails. `repair`: until a host is back.
    `notice`: how long a host is silent before it is given up.
    """

    hosts: int
    ranks_per_host: int = 8
    service: float = 0.1
    start: float = 10.0
    rank_life: float | None = None
    host_life: float | None = None
    repair: float = 3600.0
    notice: float = 5.0


class Chance:
    """Random times of a cluster, the same for each seed."""

    def __init__(self, settings: ClusterSettings, seed: int) -> None:
        self.settings = settings
        self.random = np.random.default_rng(seed)

    @property
    def start(self) -> float:
        """Seconds from the start of ranks until they are ready."""
        return self.settings.start * self.random.uniform(0.5, 1.5)

    @property
    def service(self) -> float:
        """Seconds of a request in the ranks."""
        return self.drawn(self.settings.service)

    def drawn(self, mean: float) -> float:
        """Seconds, exponentially distributed."""
        return float(self.random.exponential(mean))
