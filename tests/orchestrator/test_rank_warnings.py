"""What ranks warn of: the program hears of it at the level at which the rank said it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from namespaces import mounted, require_namespaces
from onnx import save
from onnx_models import model, node
from processes import wait_until

from rankmesh import Orchestrator

_SERVE = """
import sys, numpy, rankmesh
with rankmesh.Orchestrator(sys.argv[1]) as orchestrator:
    print(orchestrator.predict(numpy.ones((1, 512), numpy.float32))["y"].sum())
"""


def wide(folder: Path) -> str:
    """y = the sum of x, 512 times; 1 MiB of weights."""
    weights = {"w": np.ones((512, 512), np.float32)}
    save(
        model([node("MatMul", "x w", "y")], {"x": [1, 512]}, {"y": [1, 512]}, constants=weights),
        folder / "wide.onnx",
    )
    return str(folder / "wide.onnx")


def too_small_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ranks of `wide` warn of."""
    monkeypatch.setenv("RANKMESH_CACHE", str(folder / "cache"))
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "1")


def test_a_full_disk_is_a_warning_of_the_program_and_the_model_runs(tmp_path: Path) -> None:
    """A real one, and a program that has configured no logging: Python shows such warnings, and no
    lower levels.
    """
    require_namespaces()
    full = tmp_path / "disk"
    full.mkdir()
    command = mounted(
        [f"mount -t tmpfs -o size=256k none '{full}'"],
        [sys.executable, "-c", _SERVE, wide(tmp_path)],
    )
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "RANKMESH_CACHE": str(full / "models")},
    )
    assert ran.stdout.split() == [str(512.0 * 512)], ran.stderr
    said = [line for line in ran.stderr.splitlines() if "is not kept in the model cache" in line]
    assert len(said) == 1, ran.stderr
    assert said[0].endswith(
        f"wide.onnx: its build is not kept in the model cache: No space left on device (0 MiB are "
        f"free in {full / 'models'})"
    )


def test_a_warning_of_a_rank_is_a_warning_and_its_prints_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    too_small_a_cache(tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONVERBOSE", "1")  # which Python prints
    caplog.set_level(logging.INFO, "rankmesh")
    with Orchestrator(wide(tmp_path)) as orchestrator:
        orchestrator.predict(np.ones((1, 512), np.float32))
    levels = {
        "not kept in the model cache" in record.getMessage(): record.levelno
        for record in caplog.records
    }
    assert levels == {True: logging.WARNING, False: logging.INFO}


def test_the_last_lines_of_a_rank_are_as_it_logged_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    too_small_a_cache(tmp_path, monkeypatch)
    with Orchestrator(wide(tmp_path), restart_budget=0) as orchestrator:
        wait_until(lambda: "not kept in the model cache" in caplog.text, "the rank to warn")
        os.kill(orchestrator.status().ranks[0].pid, signal.SIGKILL)
        wait_until(lambda: orchestrator.status().state == "stopped", "the death to be seen")
        last = orchestrator.status().ranks[0].last_error
    assert last is not None
    (line,) = (line for line in last.splitlines() if "not kept in the model cache" in line)
    assert line.startswith(f"  {tmp_path}")
