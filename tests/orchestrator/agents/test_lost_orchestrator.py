"""Agents whose orchestrator is killed: its ranks end at once, and another one takes its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
from agents import Agents
from moody import expected, inputs, moody
from processes import PATIENCE, wait_until

from rankmesh import Orchestrator

PROGRAM = """
import json, sys
from rankmesh import Orchestrator
with Orchestrator(sys.argv[1], **json.loads(sys.argv[2])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_killed_orchestrator_takes_its_ranks_along_and_the_agent_joins_the_next(
    tmp_path: Path,
) -> None:
    pattern = moody(tmp_path, 2)
    with Agents(tmp_path) as agents:
        agents.start("a", 2)
        command = [sys.executable, "-c", PROGRAM, pattern, json.dumps(agents.settings)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None and program.stdout.readline() == "ready\n"
            ranks = agents.ranks("a")
            assert len(ranks) == 2
            program.kill()
        _, alive = psutil.wait_procs(ranks, PATIENCE)
        assert not alive and agents.started["a"].poll() is None
        with Orchestrator(pattern, **agents.settings) as served:  # type: ignore[arg-type]
            given = inputs(size=1000)
            np.testing.assert_array_equal(served.predict(given)["y"], expected(given, 2))
        wait_until(lambda: agents.started["a"].poll() == 0, "the agent to end in order")
