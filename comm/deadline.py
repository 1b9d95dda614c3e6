"""How long ranks wait for each other."""

from __future__ import annotations

import os

from .errors import UsageError

_VARIABLE = "RANKMESH_COLLECTIVE_TIMEOUT"


def deadline_from_environment() -> float:
    """RANKMESH_COLLECTIVE_TIMEOUT in seconds, 60 by default, 0 for no deadline; UsageError where it is no number."""
    text = os.environ.get(_VARIABLE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(f"{_VARIABLE} is {text!r}, expected seconds from 0 (no deadline) up.")
    return seconds
