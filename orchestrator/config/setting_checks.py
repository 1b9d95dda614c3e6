"""Checks of settings: refuse values that cannot be, each with its key and what was expected."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import Any

from ...comm.errors import UsageError

FORBID_OTHERS = {"extra": "forbid"}
"""For the reader of files: other keys than the fields are errors."""


class SettingFault(UsageError, ValueError):
    """One setting cannot be: `key` is its name, `text` what is wrong with it. A ValueError, as
    validators expect.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}: {text}")
        self.key, self.text = key, text


def check_count(key: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Raise SettingFault unless a setting is a whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingFault(key, f"got {value!r}, expected a whole number, {least} or more.")
    if most is not None and value > most:
        raise SettingFault(key, f"got {value}, expected at most {most}.")


def check_one_of(key: str, value: Any, known: Collection[str]) -> None:
    """Raise SettingFault unless a setting is one of the known words."""
    if value not in known:
        raise SettingFault(key, f"got {value!r}, expected one of {', '.join(known)}.")


def check_seconds(key: str, value: Any, or_zero: bool = False) -> None:
    """Raise SettingFault unless a setting is a finite number of seconds above zero; with `or_zero`
    zero is allowed.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or value == 0 and not or_zero:
        raise SettingFault(
            key, f"got {value!r}, expected seconds, {'0 or more' if or_zero else 'more than 0'}."
        )
