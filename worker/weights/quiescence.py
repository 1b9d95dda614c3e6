"""Waiting until nobody computes with old weights any more."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ...comm.errors import UsageError
from ...comm.sharing.lease import Lease
from ...comm.sharing.membarrier import barrier
from .sharing import Sharing

_DEADLINE = 30.0
"""Seconds that a request may go on with the version before the current one."""

_PAUSE = 0.0005


def wait_for_readers(mine: Sequence[Lease], sharings: Sequence[Sharing], generation: int) -> None:
    """Return when neither this process nor any that shares its weights computes with one before `generation`.

    `mine` are this process's leases. UsageError names who still does after the deadline.
    """
    deadline = time.monotonic() + _DEADLINE
    barrier()
    while late := _late(mine, sharings, generation):
        if time.monotonic() > deadline:
            raise UsageError(f"the weights cannot be updated: process {late[0]} computes with the version before the "
                             f"current one for more than {_DEADLINE:g} s, and its memory is needed. It may be stopped: "
                             f"end it or let it go on, then update again.")
        time.sleep(_PAUSE)


def _late(mine: Sequence[Lease], sharings: Sequence[Sharing], generation: int) -> list[int]:
    if any(lease.holds_older(generation) for lease in mine):
        return [os.getpid()]
    return [pid for sharing in sharings for pid in sharing.holding_older(generation)]
