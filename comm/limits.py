"""Limits of a process: counts of ranks and threads that no host has, and open files.

A larger count is refused by one sentence, before memory is taken for it.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from .errors import UsageError
from .system_limits import MORE_FILES
from .text import counted

MOST_SLICES = 1024
"""Ranks, and stages, of a sliced model."""

MOST_THREADS = 8192
"""Threads of a rank: more than the processors of any host."""

_RANK_FILES = 5
"""Descriptors that its supervisor has for a rank: its channel, output and process."""


def require_at_most(what: str, count: int, most: int) -> None:
    """Raise UsageError where there are to be more than `most`."""
    if count > most:
        raise UsageError(f"{what}: got {count}, expected at most {most}.")


def require_ranks(ranks: int, others: int = 0) -> None:
    """Raise UsageError where this process cannot have the files of so many ranks.

    Each needs `others` open files besides those of its process.
    """
    require_files(ranks * (_RANK_FILES + others), counted(ranks, "rank"))


def require_files(count: int, what: str) -> None:
    """Make room for `count` more open files; UsageError where the system does not allow them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _open_files() + count
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard == resource.RLIM_INFINITY or wanted <= hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return
    raise UsageError(
        f"{what} may need {wanted} open files, and this process may have {soft}: {MORE_FILES}."
    )


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
