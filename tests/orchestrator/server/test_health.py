"""Which models answer, by the status of their ranks."""

from __future__ import annotations

import os
import socket

import pytest

from rankmesh.orchestrator.replica.rank_status import RankStatus, Status
from rankmesh.orchestrator.server.health import answering_models

pytestmark = pytest.mark.pure

HERE = socket.gethostname()
NO_PROCESS = 2**22 + 1
"""More than the kernel gives any process."""


def status(host: str, pid: int | None, state: str = "ready") -> Status:
    rank = RankStatus("m", 0, 0, pid, host, 0, state, "ready", 0, "", 0)
    return Status("ready", 1, 0, (rank,))


def test_the_processes_of_this_host_are_looked_at() -> None:
    assert answering_models(status(HERE, os.getpid())) == {("m", 1)}
    assert answering_models(status(HERE, NO_PROCESS)) == set()


def test_a_number_of_a_process_of_another_host_is_not_looked_up_here() -> None:
    assert answering_models(status("other-host", NO_PROCESS)) == {("m", 1)}
    assert answering_models(status("other-host", None)) == set()
    assert answering_models(status("other-host", 1, "restarting")) == set()
