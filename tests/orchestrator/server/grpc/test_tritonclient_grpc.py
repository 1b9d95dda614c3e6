"""tritonclient over gRPC, unchanged, in a process of its own.

RANKMESH_TRITONCLIENT_PYTHON names a Python that has it, where the one of the tests has not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import PATIENCE
from served_http import serving
from served_models import doubler, echo

PYTHON = os.environ.get("RANKMESH_TRITONCLIENT_PYTHON") or sys.executable
PROGRAM = Path(__file__).parents[3] / "support" / "tritonclient_grpc.py"


@pytest.mark.skipif(
    PYTHON == sys.executable and find_spec("tritonclient") is None,
    reason="tritonclient[grpc] is not installed, nor named by RANKMESH_TRITONCLIENT_PYTHON",
)
def test_all_calls_of_tritonclient_are_answered(tmp_path: Path) -> None:
    settings = tmp_path / "serve.yaml"
    paths = [doubler(tmp_path), echo(tmp_path, 1024)]
    settings.write_text("models:\n" + "".join(f"  - path: {path}\n" for path in paths))
    with serving(settings, "--grpc-port", "0", "--management") as server:
        command = [PYTHON, str(PROGRAM), str(server.grpc_port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "all calls answered\n", done.stderr
