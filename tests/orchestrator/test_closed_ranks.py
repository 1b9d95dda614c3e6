"""What keeps the memory of an orchestrator and of its ranks from other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attackers import Attacker, Victim
from served_models import SAMPLE

from rankmesh import Orchestrator

_CLOSED_ON_EXEC = 0o2000000
SERVE = """
import numpy as np
import rankmesh
say("started")
with rankmesh.Orchestrator(sys.argv[1]) as orchestrator:
    orchestrator.predict(np.ones((4, 16), np.float32))
    say(*[rank.pid for rank in orchestrator.status().ranks])
"""


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    made = Attacker()
    yield made
    made.close()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """A program that is about to have an orchestrator."""
    made = Victim(tmp_path, SERVE, SAMPLE)
    assert made.said() == "started"
    yield made
    made.close()


def test_an_orchestrator_and_its_ranks_are_closed_to_other_processes(
    attacker: Attacker, victim: Victim
) -> None:
    victim.go()
    for pid in (victim.pid, *map(int, victim.said().split())):
        assert attacker("look", pid) == "PermissionError"
        assert attacker("open", f"/proc/{pid}/mem") == "PermissionError"


def test_a_rank_has_no_memory_of_requests_or_weights_before_it_is_closed(
    attacker: Attacker, victim: Victim
) -> None:
    """The attacker looks at it from its start on."""
    assert attacker("watch", victim.pid) == "watching"
    victim.go()
    victim.said()
    found = attacker("stop")
    assert not {"/memfd:rankmesh-tensors", "/memfd:rankmesh-ring"} & set(found), found


def memory_of(pid: int) -> Iterator[Path]:
    """The entries of /proc/PID/fd that are nameless memory, or sockets that this process has to its
    supervisor.
    """
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
                assert int(lines[lines.index("flags:") + 1], 8) & _CLOSED_ON_EXEC, os.readlink(
                    entry
                )
