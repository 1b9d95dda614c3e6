"""RANKMESH_LOG: how log lines are written where the program itself has configured no logging."""

from __future__ import annotations

import os

from .errors import UsageError

_VARIABLE = "RANKMESH_LOG"
_KNOWN = ("", "text", "json")


def json_lines() -> bool:
    """Whether log lines are JSON."""
    return os.environ.get(_VARIABLE) == "json"


def check_log_setting() -> None:
    """Raise UsageError where RANKMESH_LOG is none of the known values; such a one counts as text elsewhere."""
    value = os.environ.get(_VARIABLE, "")
    if value not in _KNOWN:
        raise UsageError(f"{_VARIABLE} is {value!r}, expected text (the default) or json.")
