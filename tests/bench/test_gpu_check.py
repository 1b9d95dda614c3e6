"""The GPU check where there is no GPU: its figures, its deadlines, and a part on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import wait_until

pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from gpu_check.figures import (
    FAILED,
    MISSED,
    PASSED,
    SKIPPED,
    Figure,
    PartResult,
    table,
    write_result,
)
from gpu_check.part_process import run_part

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("bar", "value", "holds"),
    [
        ({}, 5.0, True),
        ({"most": 1.05}, 1.05, True),
        ({"most": 1.05}, 1.06, False),
        ({"least": 0.8}, 0.79, False),
        ({"least": 0.8}, 0.8, True),
    ],
)
def test_a_figure_and_its_bar(bar: dict[str, float], value: float, holds: bool) -> None:
    assert Figure("ratio", value, **bar).holds is holds


@pytest.mark.pure
def test_results_go_through_a_file_into_a_table(tmp_path: Path) -> None:
    figures = [Figure("graph to eager", 0.4, most=0.5), Figure("added", 200.0, "µs", most=150)]
    write_result(tmp_path / "made", MISSED, figures)
    read = PartResult.read("graphs", 2.0, tmp_path / "made")
    assert read == PartResult("graphs", MISSED, 2.0, figures)
    assert table([read, PartResult("nccl", SKIPPED, note="no GPU")]).splitlines()[2:] == [
        "| graphs | graph to eager | 0.4 | ≤ 0.5 | holds |",
        "| graphs | added | 200 µs | ≤ 150 | MISSED |",
        "| nccl | skipped: no GPU | | | |",
    ]


_HANGING = """
import os, time
child = os.fork()
while True:
    time.sleep(9)
"""


def test_a_part_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gpu_check"
    (package / "parts").mkdir(parents=True)
    for name in ("__init__.py", "figures.py", "part_process.py"):
        (package / name).symlink_to(CHECKOUT / "bench" / "gpu_check" / name)
    (package / "parts" / "__init__.py").touch()
    (package / "parts" / "hanging.py").write_text(_HANGING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = time.monotonic()
    result = run_part("hanging", "cpu", 1.0, tmp_path / "hanging.log")
    assert (result.state, result.note) == (FAILED, "not done within 1 s")
    assert time.monotonic() - started < 60
    wait_until(lambda: not _hanging(), "the part's child, which is killed but not ours to wait for")


def _hanging() -> list[Path]:
    """The processes of the part that hangs."""
    return [one for one in Path("/proc").glob("[0-9]*/cmdline") if b"\0hanging\0" in _read(one)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _check(folder: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """The parts of a whole check, by name."""
    subprocess.run(
        ["bash", str(CHECKOUT / "launch" / "gpu_check.sh"), "--output", str(folder), *arguments],
        check=True,
        timeout=200,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
    )
    written = json.loads((folder / "gpu_check.json").read_text())
    return {one["part"]: one for one in written["parts"]}


def test_a_machine_without_a_gpu_skips_every_part(tmp_path: Path) -> None:
    parts = _check(tmp_path, "--device", "gpu")
    if any(one["state"] != SKIPPED for one in parts.values()):
        pytest.skip("there is a GPU")
    assert {one["note"] for one in parts.values()} == {"no GPU"}


def test_parts_run_on_a_cpu(tmp_path: Path) -> None:
    parts = _check(tmp_path, "--device", "cpu", "weights")
    assert parts["weights"]["state"] in (PASSED, MISSED)
    assert "| weights | " in (tmp_path / "gpu_check.md").read_text()
