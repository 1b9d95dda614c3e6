"""What an orchestrator logs of its life."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from moody import FOR_EVER, inputs, moody, paused, strike, wait_ready, wait_running
from processes import wait_until
from served_models import echo

import rankmesh
from rankmesh import DeadlineExceeded, Orchestrator, Poisoned, UsageError
from rankmesh.orchestrator.requests.journal import Journal

_SERVE = """
import logging, sys, rankmesh
logging.getLogger("rankmesh").setLevel(logging.INFO)
with rankmesh.Orchestrator(sys.argv[1]):
    pass
"""


def test_ready_recovered_and_closed_are_logged_with_model_and_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "rankmesh"), Orchestrator(echo(tmp_path, 4)) as orchestrator:
        strike(orchestrator, 0)
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the death to be seen")
        wait_ready(orchestrator)
        assert (
            "SIGKILL while" in orchestrator.status().ranks[0].last_error
        )  # nothing was short of memory
        assert (
            "device" not in orchestrator.status().ranks[0].last_error
        )  # of a rank on the host's processors
        orchestrator.close()
    own = [record for record in caplog.records if record.name == "rankmesh.orchestrator"]
    assert [(record.levelname, record.model) for record in own] == [
        ("INFO", "echo"),
        ("WARNING", "echo"),
        ("INFO", "echo"),
        ("INFO", "echo"),
    ]
    texts = [record.getMessage() for record in own]
    assert (
        "replica 0 is ready after" in texts[0]
        and "has recovered after" in texts[2]
        and "closed" in texts[3]
    )
    found = json.loads(rankmesh.JsonLogFormatter().format(own[0]))
    assert found["model"] == "echo" and found["replica"] == 0 and found["level"] == "INFO"


def test_a_restart_names_the_model_and_the_requests_that_run_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "rankmesh"), Orchestrator(moody(tmp_path)) as orchestrator:
        orchestrator.submit(inputs(FOR_EVER))
        wait_running(orchestrator)
        strike(orchestrator, 0)
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the death to be seen")
        wait_ready(orchestrator)
    restarts, recovered = (record for record in caplog.records if hasattr(record, "requests"))
    assert restarts.getMessage().startswith("model 'moody': replica 0 restarts at once: ")
    assert recovered.getMessage().endswith(" s, with 1 request to run again")
    (number,) = json.loads(rankmesh.JsonLogFormatter().format(restarts))["requests"]
    assert recovered.requests == [number]


def of_requests(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records that name a request."""
    return [record for record in caplog.records if hasattr(record, "request")]


def restarted(orchestrator: Orchestrator, times: int) -> bool:
    """Whether the first rank has been started again so often."""
    return orchestrator.status().ranks[0].restarts == times


def test_a_request_that_runs_again_and_is_then_refused_is_logged_with_its_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "rankmesh"),
        Orchestrator(moody(tmp_path), hang_timeout=120) as orchestrator,
    ):
        future = orchestrator.submit(inputs(FOR_EVER), timeout=None)
        for restarts in range(2):
            wait_until(partial(restarted, orchestrator, restarts), "the death to be seen")
            wait_ready(orchestrator)
            wait_running(orchestrator)
            strike(orchestrator, 0)
        with pytest.raises(Poisoned):
            future.result()
        wait_until(lambda: len(of_requests(caplog)) == 2, "the refusal to be logged")
    again, refused = of_requests(caplog)
    assert (again.levelname, again.model, again.replica, again.request) == ("INFO", "moody", 0, 1)
    assert again.getMessage() == "model 'moody': request 1 runs again, as replica 0 has failed"
    assert (refused.levelname, refused.model, refused.replica, refused.request) == (
        "WARNING",
        "moody",
        0,
        1,
    )
    assert refused.getMessage().startswith("model 'moody': request 1 has ended with Poisoned: ")
    assert isinstance(refused.args, tuple)
    assert not any(
        isinstance(one, BaseException) for one in refused.args
    )  # whose traceback keeps the request's memory
    assert json.loads(rankmesh.JsonLogFormatter().format(refused))["request"] == 1


def test_a_request_whose_deadline_passes_is_logged_with_its_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = moody(tmp_path)
    (tmp_path / "two.yaml").write_text(
        f"models:\n  - path: {path}\n    name: slow\n  - path: {path}\n    name: idle\n"
    )
    with (
        caplog.at_level(logging.INFO, "rankmesh"),
        Orchestrator(config=str(tmp_path / "two.yaml")) as orchestrator,
    ):
        with paused(orchestrator, 0):
            with pytest.raises(DeadlineExceeded):
                orchestrator.predict(inputs(), timeout=0.2, model="slow")
            wait_until(lambda: len(of_requests(caplog)) == 1, "the end of the request to be logged")
        strike(orchestrator, 0)
        wait_until(lambda: "replica 0 restarts" in caplog.text, "the death to be seen")
    (late,) = of_requests(caplog)
    assert (late.levelname, late.model, late.request) == ("INFO", "slow", 1)
    assert late.getMessage().startswith("model 'slow': request 1 has ended with DeadlineExceeded: ")
    (restarted,) = (
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    )
    assert restarted.startswith("model 'slow': replica 0 restarts at once: ")


def test_lines_of_ranks_name_model_replica_and_rank(caplog: pytest.LogCaptureFixture) -> None:
    Journal("m").rank_line(1, 2, "<4>a warning")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.model, record.replica, record.rank) == (
        "rankmesh.ranks",
        "WARNING",
        "m",
        1,
        2,
    )
    assert (
        record.getMessage() == "[m replica 1 rank 2] a warning"
        and record.filename == Path(__file__).name
    )


def test_a_handler_that_raises_keeps_no_request_waiting(tmp_path: Path) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise ValueError("broken")

    broken = Broken(logging.WARNING)
    logging.getLogger("rankmesh").addHandler(broken)
    try:
        with Orchestrator(echo(tmp_path, 4)) as orchestrator:
            strike(orchestrator, 0)
            wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the death to be seen")
            wait_ready(orchestrator)
            given = np.ones(4, np.float32)
            np.testing.assert_array_equal(orchestrator.predict(given)["y"], given)
    finally:
        logging.getLogger("rankmesh").removeHandler(broken)


def test_a_program_without_a_logging_configuration_writes_json_lines_by_a_setting(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SERVE, echo(tmp_path, 4)],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "RANKMESH_LOG": "json"},
    )
    assert ran.returncode == 0, ran.stderr
    said = [
        one
        for one in map(json.loads, ran.stderr.splitlines())
        if one["logger"] == "rankmesh.orchestrator"
    ]
    assert [(one["level"], one["model"]) for one in said] == [("INFO", "echo"), ("INFO", "echo")], (
        ran.stderr
    )
    assert "is ready after" in said[0]["message"] and said[0]["replica"] == 0


def test_an_unknown_setting_is_an_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_LOG", "jsonl")
    with pytest.raises(UsageError, match="RANKMESH_LOG is 'jsonl', expected text"):
        Orchestrator(echo(tmp_path, 4))
