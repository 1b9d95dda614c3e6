"""Agents that are tasks of mpirun, one for each host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from agents import Agents
from moody import expected, inputs, moody
from mpirun import environment, mpirun
from processes import PATIENCE

from rankmesh import Orchestrator


def test_tasks_of_mpirun_are_agents_and_end_in_order(tmp_path: Path) -> None:
    with Agents(tmp_path) as agents:
        command = [mpirun(), "-n", "2", "--bind-to", "none", *agents.command(1)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment()) as tasks:
            try:
                settings = {**agents.settings, "agents": 2, "replicas": 2}
                with Orchestrator(moody(tmp_path), **settings) as served:  # type: ignore[arg-type]
                    given = inputs()
                    np.testing.assert_array_equal(served.predict(given)["y"], expected(given, 1))
                    assert len({one.pid for one in served.status().ranks}) == 2
                assert tasks.wait(PATIENCE) == 0
            finally:
                tasks.terminate()
