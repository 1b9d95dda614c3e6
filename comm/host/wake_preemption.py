"""Wake preemption: decides whether a thread that wakes may take the core of another one."""

from __future__ import annotations

import os
from contextlib import suppress

_POLICIES = os.SCHED_BATCH, os.SCHED_OTHER
"""Of sched(7): of a thread that preempts no other as it wakes, and of one that may."""


def set_wake_preemption(thread: int, preempt: bool) -> None:
    """Let a thread, by its native id, preempt others as it wakes, or not.

    A thread with another policy, which a user has chosen, keeps it. So does any thread where the
    system forbids a change.
    """
    before, after = _POLICIES if preempt else _POLICIES[::-1]
    with suppress(OSError):
        if os.sched_getscheduler(thread) == before:
            os.sched_setscheduler(thread, after, os.sched_param(0))
