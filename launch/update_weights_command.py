"""`rankmesh update-weights`: new weights for a model that another process runs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..comm.errors import UsageError
from ..comm.regular_file import open_regular
from ..comm.shard import RANK
from ..comm.sharing.attachment import ask_for_rank, ask_for_update
from ..comm.sharing.messages import Update

_TIMEOUT = 600.0
"""Seconds in which the owner has read the file and taken the weights over."""


def parse_layout(entries: Sequence[str]) -> dict[str, int]:
    """Axes by name or pattern, from `NAME=AXIS` each; UsageError where one is none."""
    found = {}
    for entry in entries:
        name, equals, axis = entry.rpartition("=")
        if not equals or not name or not axis.removeprefix("-").isdecimal() or not -64 <= int(axis) < 64:
            raise UsageError(f"--layout is '{entry}', expected NAME=AXIS, such as '*.fc1.weight=0'.")
        found[name] = int(axis)
    return found


def update_weights(pid: int, path: str, layout: dict[str, int], delta: bool) -> str:
    """Have the process `pid` take the weights in the file, `{rank}` being its rank; what it did. Raises UsageError."""
    path = os.path.abspath(path)
    if RANK in path:
        path = path.replace(RANK, str(ask_for_rank(pid)))
    try:
        file = open_regular(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    with file:
        return ask_for_update(pid, file.fileno(), Update(path, delta, layout), _TIMEOUT)
