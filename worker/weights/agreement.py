"""Ranks agree on the version of the weights before each request, so that none computes with another's last one."""

from __future__ import annotations

import numpy as np

from ...comm.collectives.base import Call, Collectives, Group, Kind, Reduction
from ...comm.rank import Rank


class Agreement:
    """One small AllReduce of all ranks per request."""

    def __init__(self, collectives: Collectives, rank: Rank) -> None:
        self._collectives = collectives
        self._call = Call(kind=Kind.ALL_REDUCE, group=Group("weights", tuple(range(rank.world_size))),
                          node="the version of the weights", reduction=Reduction.MIN)
        self._mine, self._all = np.zeros(2, np.int64), np.zeros(2, np.int64)

    def same(self, version: int) -> bool:
        """Whether all ranks have come with this version. Raises what collectives raise."""
        self._mine[:] = version, -version
        self._collectives.run(self._call, [self._mine], [self._all])
        return bool(self._all[0] == -self._all[1])
