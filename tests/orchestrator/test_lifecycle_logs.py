"""What an orchestrator logs of its life."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from moody import FOR_EVER, inputs, moody, strike, wait_ready, wait_running
from processes import wait_until
from served_models import echo

import rankmesh
from rankmesh import Orchestrator


def test_ready_recovered_and_closed_are_logged_with_model_and_replica(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rankmesh"), Orchestrator(echo(tmp_path, 4)) as orchestrator:
        strike(orchestrator, 0)
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the death to be seen")
        wait_ready(orchestrator)
        assert "SIGKILL while" in orchestrator.status().ranks[0].last_error  # nothing was short of memory
        assert "device" not in orchestrator.status().ranks[0].last_error  # of a rank on the host's processors
        orchestrator.close()
    own = [record for record in caplog.records if record.name == "rankmesh.orchestrator"]
    assert [(record.levelname, record.model) for record in own] == [
        ("INFO", "echo"), ("WARNING", "echo"), ("INFO", "echo"), ("INFO", "echo")]
    texts = [record.getMessage() for record in own]
    assert "replica 0 is ready after" in texts[0] and "has recovered after" in texts[2] and "closed" in texts[3]
    found = json.loads(rankmesh.JsonLogFormatter().format(own[0]))
    assert found["model"] == "echo" and found["replica"] == 0 and found["level"] == "INFO"


def test_a_restart_names_the_model_and_the_requests_that_run_again(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rankmesh"), Orchestrator(moody(tmp_path)) as orchestrator:
        orchestrator.submit(inputs(FOR_EVER))
        wait_running(orchestrator)
        strike(orchestrator, 0)
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the death to be seen")
        wait_ready(orchestrator)
    _, restarts, recovered = [record for record in caplog.records if record.name == "rankmesh.orchestrator"][:3]
    assert restarts.getMessage().startswith("model 'moody': replica 0 restarts at once: ")
    assert recovered.getMessage().endswith(" s, with 1 request to run again")
    (number,) = json.loads(rankmesh.JsonLogFormatter().format(restarts))["requests"]
    assert recovered.requests == [number]
