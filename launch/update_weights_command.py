"""`rankmesh update-weights`: new weights for a model that another process runs."""

from __future__ import annotations

import os

from ..comm.errors import UsageError
from ..comm.sharing.attachment import ask_for_update

_TIMEOUT = 600.0
"""Seconds in which the owner has read the file and taken the weights over."""


def update_weights(pid: int, path: str, delta: bool) -> str:
    """Have the process `pid` take the weights in the file; what it did. Raises UsageError with its reason."""
    path = os.path.abspath(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    try:
        return ask_for_update(pid, fd, path, delta, _TIMEOUT)
    finally:
        os.close(fd)
