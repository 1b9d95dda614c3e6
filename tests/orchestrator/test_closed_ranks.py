"""What keeps the memory of an orchestrator and of its ranks from other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from served_models import SAMPLE

from rankmesh import Orchestrator

_CLOSED_ON_EXEC = 0o2000000


def memory_of(pid: int) -> Iterator[Path]:
    """The entries of /proc/PID/fd that are nameless memory, or sockets that this process has to its supervisor."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(entry).startswith(("/memfd:rankmesh", "socket:", "anon_inode:[eventfd]")):
            yield entry


def test_no_program_that_a_rank_starts_gets_its_memory() -> None:
    with Orchestrator(SAMPLE) as orchestrator:
        orchestrator.predict(np.ones((4, 16), np.float32))
        for rank in orchestrator.status().ranks:
            assert rank.pid
            entries = list(memory_of(rank.pid))
            assert sum("rankmesh-tensors" in os.readlink(entry) for entry in entries) >= 2
            for entry in entries:
                lines = (entry.parents[1] / "fdinfo" / entry.name).read_text().split()
                assert int(lines[lines.index("flags:") + 1], 8) & _CLOSED_ON_EXEC, os.readlink(entry)
