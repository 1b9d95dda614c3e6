"""Log lines of commands and ranks with RANKMESH_LOG=json: every line of standard error is a
record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from launched import launch, of_each_rank, script
from processes import rankmesh

MLP = Path(__file__).parents[1] / "data" / "mindir" / "mlp" / "mlp.mindir"
_FALLS_BACK = """
    import sys
    import rankmesh as mslite
    context = mslite.Context()
    context.target = ["gpu"]
    mslite.Model().build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
    print("built")
"""
_UNKNOWN = "RANKMESH_LOG is 'jsonl', expected text (the default) or json."


def records(errors: str) -> list[dict[str, Any]]:
    """The lines of a standard error, each of which is a JSON object."""
    return [json.loads(line) for line in errors.splitlines()]


def test_a_command_and_its_ranks(tmp_path: Path) -> None:
    config = tmp_path / "config.ini"
    config.write_text("[execution_plan]\nc=data_type:int8\n")
    done = rankmesh("run", MLP, "--ranks", 1, "-v", "--config", config, RANKMESH_LOG="json")
    assert done.returncode == 0, done.stderr
    said = records(done.stderr)
    assert any(one["logger"] == "rankmesh" and "1 rank" in one["message"] for one in said)
    (ignored,) = (one for one in said if "data_type:int8 is ignored" in one["message"])
    assert (ignored["level"], ignored["logger"]) == ("WARNING", "rankmesh")
    assert "rank" not in ignored  # the launcher reads the configuration, once for all ranks


def test_the_error_of_a_command(tmp_path: Path) -> None:
    done = rankmesh("run", tmp_path / "none.mindir", RANKMESH_LOG="json")
    (error,) = records(done.stderr)
    assert done.returncode == 3 and error["level"] == "ERROR" and "none.mindir" in error["message"]


def test_ranks_of_a_script(tmp_path: Path) -> None:
    status, out, errors = launch(
        "--ranks",
        2,
        script(tmp_path, _FALLS_BACK),
        MLP,
        RANKMESH_LOG="json",
        RANKMESH_ALLOW_EQUAL_SHARDS="1",
        CUDA_VISIBLE_DEVICES="",
    )
    assert status == 0 and "built" in out, errors
    fallen = [one for one in records(errors) if "running on cpu instead" in one["message"]]
    assert sorted(one["rank"] for one in fallen) == [0, 1]


def test_the_same_lines_without_the_setting_have_the_ranks_before_them(tmp_path: Path) -> None:
    status, _, errors = launch(
        "--ranks",
        2,
        script(tmp_path, _FALLS_BACK),
        MLP,
        RANKMESH_ALLOW_EQUAL_SHARDS="1",
        CUDA_VISIBLE_DEVICES="",
    )
    assert status == 0, errors
    for rank in range(2):
        assert any("running on cpu instead" in line for line in of_each_rank(errors)[rank]), errors


def test_an_unknown_value_ends_commands_and_scripts(tmp_path: Path) -> None:
    done = rankmesh("env", RANKMESH_LOG="jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"rankmesh: {_UNKNOWN}\n"
    status, _, errors = launch(
        "--ranks", 1, script(tmp_path, _FALLS_BACK), MLP, RANKMESH_LOG="jsonl"
    )
    assert status == 2 and _UNKNOWN in errors
    ran = subprocess.run(
        [sys.executable, script(tmp_path, _FALLS_BACK), MLP],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "RANKMESH_LOG": "jsonl", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 1 and _UNKNOWN in ran.stderr
