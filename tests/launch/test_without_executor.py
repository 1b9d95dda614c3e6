"""What a user sees who has installed Rankmesh without an extra, so that there is neither
onnxruntime nor torch: one line.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hidden_packages import hiding
from launched import BUILD, script
from processes import rankmesh
from shards import summing

ADVICE = "pip install 'rankmesh[cpu]'"
USES = {
    "Model": "rankmesh.Model().build_from_file(path, rankmesh.ModelType.MINDIR)",
    "ModelParallelRunner": "rankmesh.ModelParallelRunner().build_from_file(path)",
    "Orchestrator": "rankmesh.Orchestrator(path)",
}


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of processes, ranks too, that cannot import an executor's library."""
    return hiding(tmp_path / "site", "onnxruntime", "torch")


def test_run_says_what_to_install(tmp_path: Path, without: dict[str, str]) -> None:
    done = rankmesh("run", summing(tmp_path), "--device", "cpu", **without)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("rankmesh: ") and ADVICE in line


def test_inspect_needs_none(tmp_path: Path, without: dict[str, str]) -> None:
    done = rankmesh("inspect", summing(tmp_path), **without)
    assert (done.returncode, done.stderr) == (0, "") and "AllReduce" in done.stdout


@pytest.mark.parametrize("use", USES)
def test_a_program_gets_one_error(tmp_path: Path, without: dict[str, str], use: str) -> None:
    summing(tmp_path, ranks=1)
    program = f"import rankmesh; path = {str(tmp_path / 'sum0.onnx')!r}; {USES[use]}"
    done = subprocess.run(
        [sys.executable, "-c", program], env=without, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    last = done.stderr.splitlines()[-1]
    assert "rankmesh.comm.errors.UsageError: " in last and ADVICE in last


def test_ranks_of_a_script_get_one_error(tmp_path: Path, without: dict[str, str]) -> None:
    pattern = summing(tmp_path)
    done = rankmesh(
        "launch", "--ranks", "2", script(tmp_path, BUILD, "predict()"), pattern, **without
    )
    errors = done.stderr.splitlines()
    assert done.returncode == 1 and ADVICE in done.stderr
    assert not [line for line in errors if "The above exception" in line], done.stderr


def test_the_torch_executor_says_what_to_install(tmp_path: Path, without: dict[str, str]) -> None:
    done = rankmesh(
        "run", summing(tmp_path), "--device", "cpu", **without, RANKMESH_EXECUTOR="torch"
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("rankmesh: ") and "pip install 'rankmesh[torch]'" in line
