"""The shared memory of an MPI, which must leave no file behind when a rank dies."""

from __future__ import annotations

import os
from contextlib import suppress

_MPICH = "/dev/shm/mpich_"  # nosec B108  # how MPICH names its own segments, which are only looked for


def unname_segments() -> None:
    """Remove the names of MPICH's segments; call it once every rank of this host has opened them.

    MPICH 5 removes them when it finishes, so that they stay, 2 MB each, where a rank dies; earlier ones do as this
    does. It does not mind that they are gone. What is mapped stays mapped.
    """
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if _MPICH in line}
    for path in paths:
        with suppress(FileNotFoundError):  # another rank was first, or it had no name (then it ends in "(deleted)")
            os.unlink(path)
