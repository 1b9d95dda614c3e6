"""How a supervisor tells its ranks which inherited descriptors are their channel and the arena."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "RANKMESH_CHANNEL"


def described(channel_fd: int, arena_fd: int) -> str:
    """The variable's value: descriptors with their inodes, by which a stale value is recognised."""
    return ":".join(f"{fd}.{os.fstat(fd).st_ino}" for fd in (channel_fd, arena_fd))


def inherited_fds(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """The descriptors of channel and arena; None where nothing was inherited.

    A grandchild has the variable but not the descriptors (or other files under their numbers).
    """
    found = []
    for part in environ.get(VARIABLE, "").split(":"):
        fd, _, inode = part.partition(".")
        if not (fd.isdigit() and inode.isdigit()) or _inode(int(fd)) != int(inode):
            return None
        found.append(int(fd))
    return (found[0], found[1]) if len(found) == 2 else None


def job(environ: Mapping[str, str]) -> str:
    """What the ranks of one supervisor, and the processes that they start in turn, have in common: the arena."""
    return "rankmesh launch " + environ.get(VARIABLE, "").rpartition(".")[2]


def _inode(fd: int) -> int:
    try:
        return os.fstat(fd).st_ino
    except (OSError, OverflowError):
        return -1
