"""Closing a process to others of the same user: no ptrace, no /proc/PID/mem or fd, no core file."""

from __future__ import annotations

import ctypes
import os

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE, prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


CLOSED = {"RANKMESH_CLOSED": "1"}
"""The setting with which `import rankmesh` closes a process."""


def close_to_others() -> None:
    """Make this process undumpable. An exec opens it again.

    Call this before any shared memory is made or arrives: every process of the same user reads it through
    /proc/PID/fd until then, and what was opened before stays open.
    """
    if _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"this process cannot be made undumpable: {os.strerror(number)}")
