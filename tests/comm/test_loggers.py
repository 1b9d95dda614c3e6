"""Where log records go: as of any library, but a program without a logging configuration loses no
warning.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest

import rankmesh
from rankmesh import UsageError
from rankmesh.comm.loggers import check_log_setting

_START = "import logging, rankmesh; rankmesh.Context; log = logging.getLogger('rankmesh')\n"
_SAID = "log.info('an info'); log.warning('a warning of %s', 'x\\x1b[2J')\n"
_OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def said(program: str, **environment: str) -> str:
    """What a program of a user's writes to standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", _START + program],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0 and not ran.stdout, ran.stderr
    return ran.stderr


def test_the_handler_is_that_of_a_library() -> None:
    assert rankmesh.Context  # the first use of a name
    assert [
        type(one)
        for one in logging.getLogger("rankmesh").handlers
        if isinstance(one, logging.NullHandler)
    ]


def test_without_a_configuration_warnings_show_and_nothing_below() -> None:
    assert said(_SAID) == "a warning of x\\x1b[2J\n"


@pytest.mark.parametrize(
    "handler",
    [
        "log.addHandler(logging.NullHandler())",
        "logging.getLogger().addHandler(logging.NullHandler())",
    ],
)
@pytest.mark.parametrize("setting", ["", "json"])
def test_where_the_program_has_a_handler_that_alone_decides(handler: str, setting: str) -> None:
    assert not said(f"{handler}\n{_SAID}", RANKMESH_LOG=setting)


def test_each_record_is_written_once_where_logging_is_configured() -> None:
    assert (
        said(f"logging.basicConfig(format='%(name)s: %(message)s')\n{_SAID}")
        == "rankmesh: a warning of x\\x1b[2J\n"
    )


@pytest.mark.parametrize("name", ["rankmesh.orchestrator", "rankmesh.ranks"])
def test_what_would_steer_the_terminal_is_written_out_by_all_loggers(name: str) -> None:
    assert said(f"log = logging.getLogger({name!r})\n{_SAID}") == "a warning of x\\x1b[2J\n"


def test_json_lines_are_a_setting_and_the_loggers_levels_count() -> None:
    (warned,) = map(json.loads, said(_SAID, RANKMESH_LOG="json").splitlines())
    assert (warned["level"], warned["logger"]) == ("WARNING", "rankmesh") and "rank" not in warned
    both = said(f"log.setLevel('INFO')\n{_SAID}", RANKMESH_LOG="json").splitlines()
    assert [json.loads(line)["message"] for line in both] == ["an info", "a warning of x\\x1b[2J"]


def test_records_of_a_rank_name_it() -> None:
    assert json.loads(said(_SAID, RANKMESH_LOG="json", **_OPEN_MPI))["rank"] == 1


@pytest.mark.parametrize("value", ["", "text", "json"])
def test_known_values(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_LOG", value)
    check_log_setting()


def test_an_unknown_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_LOG", "jsonl")
    with pytest.raises(
        UsageError, match=r"RANKMESH_LOG is 'jsonl', expected text \(the default\) or json\."
    ):
        check_log_setting()
