"""Processes on other hosts in errors: by their pid once their agent has told of it."""

from __future__ import annotations

import pytest

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.processes.rank_errors import describe_rank
from rankmesh.orchestrator.agents.remote_process import RemoteProcess

pytestmark = pytest.mark.pure


def test_a_rank_whose_agent_is_lost_before_its_start_has_no_pid() -> None:
    process = RemoteProcess(Rank(1, 2, 0, 1, "far", 0))
    assert describe_rank(process) == "rank 1 of 2 on far (not started)"
    process.pid, process.place = 7, "device 0"
    assert describe_rank(process) == "rank 1 of 2 on far (pid 7, device 0)"
