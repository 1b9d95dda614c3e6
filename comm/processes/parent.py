"""A process that does not outlive its parent."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)  # loaded before any fork


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which started it, ends; at once if it has. Outlasts exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
