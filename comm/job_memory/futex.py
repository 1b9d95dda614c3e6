"""Futexes: sleeping and waking on words of shared memory, and memory fences."""

from __future__ import annotations

import ctypes
import errno
import platform
import threading
import time
from collections.abc import Sequence

_NUMBERS = {"x86_64": 202, "aarch64": 98}
_MACHINE = platform.machine()
if _MACHINE not in _NUMBERS:
    raise ImportError(
        f"shared memory between ranks needs x86_64 or aarch64, this machine is {_MACHINE}"
    )
_NUMBER = _NUMBERS[_MACHINE]
_WAIT, _WAKE, _WAKE_PRIVATE = 0, 1, 129
_EVERYBODY = 2**31 - 1


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Waiter(ctypes.Structure):
    _fields_ = [
        ("value", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


MOST_AT_ONCE = 128
"""Words that `wait_any` can sleep on."""

_WAITV, _SIZE_32 = 449, 2
_SLICE = _Timespec(0, 20_000_000)
_SLICE_ADDRESS = ctypes.addressof(_SLICE)
_LONG = _Timespec(1, 0)
_LONG_ADDRESS = ctypes.addressof(_LONG)

# The wait must let other threads of the process run; the wake is shorter than giving the GIL away.
_sleeping = ctypes.CDLL(None).syscall
_waking = ctypes.PyDLL(None).syscall
for _call in (_sleeping, _waking):
    _call.argtypes = [
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]


def wait(address: int, expected: int) -> bool:
    """Sleep while the 32-bit word at `address` is `expected`, at most 20 ms; True when woken."""
    return bool(_sleeping(_NUMBER, address, _WAIT, expected & 0xFFFFFFFF, _SLICE_ADDRESS) == 0)


def wait_long(address: int, expected: int) -> bool:
    """As `wait`, at most a second: for a caller without other work."""
    return bool(_sleeping(_NUMBER, address, _WAIT, expected & 0xFFFFFFFF, _LONG_ADDRESS) == 0)


def wait_any(addresses: Sequence[int], expected: Sequence[int]) -> bool:
    """Sleep while all these words are as expected, at most two seconds.

    False where the kernel (before 5.16) cannot.
    """
    waiters = (_Waiter * len(addresses))(
        *(
            _Waiter(value, address, _SIZE_32, 0)
            for address, value in zip(addresses, expected, strict=True)
        )
    )
    end = _Timespec(int(time.monotonic()) + 2, 0)
    found = _sleeping_on_any(
        _WAITV, ctypes.byref(waiters), len(addresses), 0, ctypes.byref(end), time.CLOCK_MONOTONIC
    )
    return bool(found >= 0 or ctypes.get_errno() in (errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR))


def wake(address: int, most: int = _EVERYBODY) -> None:
    """Wake every process that sleeps on the word at `address`, or at `most` so many."""
    _waking(_NUMBER, address, _WAKE, most, None)


_sleeping_on_any = ctypes.CDLL(None, use_errno=True).syscall
_sleeping_on_any.argtypes = [
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_uint,
    ctypes.c_void_p,
    ctypes.c_int,
]

_private_word = ctypes.c_uint32()
_private_address = ctypes.addressof(_private_word)
_private_lock = threading.Lock()
_acquire, _release = _private_lock.acquire, _private_lock.release


def _locked_fence() -> None:
    """A full fence on x86-64: taking a free lock is a lock-prefixed instruction."""
    _acquire()
    _release()


def _kernel_fence() -> None:
    """A full fence anywhere: a wake without sleepers passes through the fence of the kernel."""
    _waking(_NUMBER, _private_address, _WAKE_PRIVATE, 1, None)


def _no_fence() -> None:
    """No fence: x86-64 keeps the order of stores, and that of loads."""


TOTAL_STORE_ORDER = _MACHINE == "x86_64"
"""Whether plain stores become visible in program order.

If so, a plain word can hand over data.
"""

full_fence = _locked_fence if TOTAL_STORE_ORDER else _kernel_fence
"""Orders a store before a later load: publish a word, then look for its sleepers."""

order_fence = _no_fence if TOTAL_STORE_ORDER else _kernel_fence
"""Orders data before the word that announces it, and the word before reading the data."""
