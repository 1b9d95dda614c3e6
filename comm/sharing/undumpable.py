"""Closing a process to others of the same user: no ptrace, no /proc/PID/mem or fd, no core file."""

from __future__ import annotations

import ctypes
import os

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE, prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


def close_to_others() -> None:
    """Make this process undumpable. An exec opens it again: call this before any shared memory arrives.

    Without it every process of the same user reads shared weights through /proc/PID/fd.
    """
    if _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"this process cannot be made undumpable: {os.strerror(number)}")
