"""Triton's own clients, unchanged, in a process of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE
from served_http import serving
from served_models import doubler

PROGRAM = Path(__file__).parents[2] / "support" / "triton_http_client.py"
PYTHON = os.environ.get("RANKMESH_TRITONCLIENT_PYTHON", "")
"""A Python with tritonclient[http], which asks for an older ml_dtypes than onnx brings."""


@pytest.mark.skipif(
    not PYTHON and importlib.util.find_spec("tritonclient") is None,
    reason="no tritonclient: name a Python that has it with RANKMESH_TRITONCLIENT_PYTHON",
)
def test_tritons_http_clients_work_unchanged(tmp_path: Path) -> None:
    with serving(doubler(tmp_path), "--management") as server:
        done = subprocess.run(
            [PYTHON or sys.executable, PROGRAM, f"127.0.0.1:{server.port}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert (done.stdout, done.returncode) == ("answered\n", 0), done.stderr
