"""A memory barrier that one process pays for all others (membarrier(2)), so that readers need none of their own."""

from __future__ import annotations

import ctypes
import os
import platform

from ..errors import UsageError

_NUMBERS = {"x86_64": 324, "aarch64": 283}
_GLOBAL_EXPEDITED, _REGISTER_GLOBAL_EXPEDITED = 1 << 1, 1 << 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def take_part() -> None:
    """Let this process be reached by the barriers of others, before its first read that relies on them."""
    _call(_REGISTER_GLOBAL_EXPEDITED)


def barrier() -> None:
    """Order memory on every processor that runs a process that takes part; microseconds.

    What this process wrote before is seen by whatever they read afterwards, and the other way round.
    """
    _call(_GLOBAL_EXPEDITED)


def _call(command: int) -> None:
    if _LIBC.syscall(_NUMBERS[platform.machine()], command, 0, 0):
        number = ctypes.get_errno()
        raise UsageError(f"shared weights cannot be updated here: membarrier: {os.strerror(number)}. It needs Linux "
                         f"4.16 or later, and a sandbox that allows it.")
