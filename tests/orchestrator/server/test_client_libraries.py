"""Every call of the clients of others, unchanged: tritonclient's four and those of KServe's SDK.

Each runs in a process of its own, by a Python that has it: both ask for older packages than those
of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import PATIENCE
from served_http import ServerProcess, serving
from served_models import doubler

PROGRAMS = Path(__file__).parents[2] / "support"
PREFIX = f"/client-libraries{os.getpid()}-"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = ("--grpc-port", "0", "--management", "--shared-memory-prefix", PREFIX)
    with serving(doubler(tmp_path_factory.mktemp("models")), *options) as made:
        yield made


def python_with(package: str) -> str:
    """A Python with the package; skips the test where there is none."""
    variable = f"RANKMESH_{package.upper()}_PYTHON"
    if python := os.environ.get(variable, ""):
        return python
    if find_spec(package) is None:
        pytest.skip(f"no {package}: name a Python that has it with {variable}")
    return sys.executable


@pytest.mark.parametrize(
    ("package", "program"),
    [("tritonclient", "triton_calls.py"), ("kserve", "kserve_clients.py")],
)
def test_every_call_is_answered(request: pytest.FixtureRequest, package: str, program: str) -> None:
    python = python_with(package)  # before the server starts
    server = request.getfixturevalue("server")
    prefix = [PREFIX] if package == "tritonclient" else []
    command = [python, str(PROGRAMS / program), *prefix, str(server.port), str(server.grpc_port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("answered\n", 0), done.stderr
