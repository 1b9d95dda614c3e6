"""Readers of live weights: leases, agreement across ranks, and waiting for readers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...comm.collective_call import Call, Kind, RankGroup, Reduction
from ...comm.collectives.backend import Collectives
from ...comm.errors import UsageError
from ...comm.job.rank import Rank
from ...comm.sharing.broker import Broker
from ...comm.sharing.lease import Lease, barrier, become_reader

READERS_DEADLINE = 30.0
"""Seconds that a request may go on with the version before the current one."""

_PAUSE = 0.0005


class SnapshotReader:
    """Holds generations by a lease, for one thread of this process at a time."""

    def __init__(self, lease: Lease, word: memoryview) -> None:
        """`word` has the current generation in its first element."""
        become_reader()
        self.lease = lease
        self._word = word
        self._process = os.getpid()

    @contextmanager
    def hold(self) -> Iterator[int]:
        """Keep the current generation unchanged; yields its number.

        Raises UsageError in a forked child, which shares the lease with its parent.
        """
        if os.getpid() != self._process:
            raise UsageError(
                f"process {self._process} built this model with shared or updatable weights, and "
                "this one was forked from it: build the model in each process."
            )
        with self.lease.hold(self._word) as generation:
            yield generation


class VersionAgreement:
    """Agreement of all ranks on the version of the weights: one small AllReduce per request."""

    def __init__(self, collectives: Collectives, rank: Rank) -> None:
        self._collectives = collectives
        self._call = Call(
            kind=Kind.ALL_REDUCE,
            group=RankGroup("weights", tuple(range(rank.world_size))),
            node="the version of the weights",
            reduction=Reduction.MIN,
        )
        self._mine = np.zeros(2, np.int64)
        self._all = np.zeros(2, np.int64)

    def same(self, version: int) -> bool:
        """Whether all ranks have come with this version. Raises what collectives raise."""
        self._mine[:] = version, -version
        self._collectives.run(self._call, [self._mine], [self._all])
        return bool(self._all[0] == -self._all[1])


def wait_for_readers(mine: Sequence[Lease], brokers: Sequence[Broker], generation: int) -> None:
    """Wait until no process computes with weights before `generation`.

    `mine` are the leases of this process; `brokers` know those of others. Raises UsageError after
    a deadline, naming a process that still does.
    """
    deadline = time.monotonic() + READERS_DEADLINE
    barrier()
    while late := _late(mine, brokers, generation):
        if time.monotonic() > deadline:
            raise UsageError(
                f"the weights cannot be updated: process {late[0]} computes with the version "
                f"before the current one for more than {READERS_DEADLINE:g} s, and its memory is "
                "needed. It may be stopped: end it or let it go on, then update again."
            )
        time.sleep(_PAUSE)


def _late(mine: Sequence[Lease], brokers: Sequence[Broker], generation: int) -> list[int]:
    if any(lease.holds_older(generation) for lease in mine):
        return [os.getpid()]
    return [pid for broker in brokers for pid in broker.holding_older(generation)]
