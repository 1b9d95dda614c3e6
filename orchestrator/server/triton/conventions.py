"""Triton's conventions: its priorities and timeouts as the orchestrator's."""

from __future__ import annotations

from typing import TypeGuard

from ....comm.errors import InputError

_LEVELS = 1 << 64
_MICROSECOND = 1e-6
_LONGEST = 10 * 365 * 24 * 3600 * 1_000_000
"""Microseconds that a timeout may have at most: no float holds every whole number of JSON."""


def priority_of(level: object) -> int:
    """The orchestrator's priority for a level of Triton's, where 1 is the highest.

    A request of any level goes before one of level 0, which names none.
    """
    if not _whole(level) or not 0 <= level < _LEVELS:
        raise InputError(
            f"priority: got {level!r:.60}, expected a whole number: 1 is the highest, 0 none."
        )
    return _LEVELS - level if level else 0


def seconds_of(timeout: object) -> float | None:
    """Seconds for a timeout in microseconds; None for 0, which leaves it to the model."""
    if not _whole(timeout) or timeout < 0:
        raise InputError(
            f"timeout: got {timeout!r:.60}, expected a whole number of microseconds, 0 for the "
            "model's own."
        )
    return min(timeout, _LONGEST) * _MICROSECOND if timeout else None


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
