"""MPICH's segments lose their names and keep what they hold; others are left alone."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from rankmesh.comm.rendezvous.mpi_processes import unname_segments

pytestmark = pytest.mark.pure

MEMORY = Path("/dev/shm")


def mapped(path: Path) -> mmap.mmap:
    with open(path, "x+b") as file:
        file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)


def test_only_mpichs_own_segments_of_this_process_lose_their_names() -> None:
    if not os.access(MEMORY, os.W_OK):
        pytest.skip(f"{MEMORY} cannot be written to")
    ours, strangers, others = (
        MEMORY / f"{name}_{os.getpid()}" for name in ("mpich_shm", "mpich_shm_x", "rm_test")
    )
    try:
        with mapped(ours) as segment, mapped(others):
            strangers.touch()
            segment[0] = 7
            unname_segments()
            assert (ours.exists(), strangers.exists(), others.exists()) == (False, True, True)
            assert segment[0] == 7
            unname_segments()
    finally:
        for path in (ours, strangers, others):
            path.unlink(missing_ok=True)
