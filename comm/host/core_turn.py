"""Core turn: has a thread that wakes wait for it, or take the core of another thread."""

from __future__ import annotations

import os
from contextlib import suppress

_POLICIES = os.SCHED_OTHER, os.SCHED_BATCH
"""Of sched(7). A thread of the first one may take the core of another as it wakes."""


def set_core_turn(thread: int, wait: bool) -> None:
    """Have a thread of this process, by its native id, `wait` for its turn, or not.

    Other policies, which a user has chosen, stay. So does any where the system forbids a change.
    """
    before, after = _POLICIES if wait else _POLICIES[::-1]
    with suppress(OSError):
        if os.sched_getscheduler(thread) == before:
            os.sched_setscheduler(thread, after, os.sched_param(0))
