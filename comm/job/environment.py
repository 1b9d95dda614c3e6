"""Environment of a rank: variables for inherited descriptors and for the collective deadline."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..errors import UsageError

CHANNEL_VARIABLE = "RANKMESH_CHANNEL"


def described(channel_fd: int, arena_fd: int) -> str:
    """The value of the variable: descriptors with their inodes, which tell a stale value."""
    return ":".join(f"{fd}.{os.fstat(fd).st_ino}" for fd in (channel_fd, arena_fd))


def inherited_fds(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """The descriptors of channel and arena; None where nothing was inherited.

    A process that a rank started has the variable, but other files under these numbers, or none.
    """
    found = []
    for part in environ.get(CHANNEL_VARIABLE, "").split(":"):
        fd, _, inode = part.partition(".")
        if not (fd.isdigit() and inode.isdigit()) or _inode(int(fd)) != int(inode):
            return None
        found.append(int(fd))
    return (found[0], found[1]) if len(found) == 2 else None


def job(environ: Mapping[str, str]) -> str:
    """A name for the job of one supervisor, by its arena.

    Processes that its ranks start have it too.
    """
    return "rankmesh launch " + environ.get(CHANNEL_VARIABLE, "").rpartition(".")[2]


def _inode(fd: int) -> int:
    try:
        return os.fstat(fd).st_ino
    except (OSError, OverflowError):
        return -1


_TIMEOUT_VARIABLE = "RANKMESH_COLLECTIVE_TIMEOUT"


def deadline_from_environment() -> float:
    """RANKMESH_COLLECTIVE_TIMEOUT in seconds: 60 by default, 0 for no deadline.

    UsageError where it is not a number.
    """
    text = os.environ.get(_TIMEOUT_VARIABLE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(
            f"{_TIMEOUT_VARIABLE} is {text!r}, expected seconds from 0 (no deadline) up."
        )
    return seconds
