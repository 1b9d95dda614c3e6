"""The gRPC library as the server loads it, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("grpc")

from rankmesh.orchestrator.server.grpc.transport.library import (
    LAST_EXAMINED,
    installed_version,
)

IMPORT = """
import os
from rankmesh.orchestrator.server.grpc.transport.library import grpc
assert grpc.aio
print(os.environ.get("GRPC_EXPERIMENTS"))
"""


def loaded(**variables: str) -> subprocess.CompletedProcess[str]:
    """A process that loads the library, with these variables."""
    given = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    return subprocess.run(
        [sys.executable, "-P", "-c", IMPORT],
        env={**given, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@pytest.mark.pure
def test_the_experiments_of_the_installed_version_were_looked_at() -> None:
    assert installed_version() <= LAST_EXAMINED, (
        "grpcio is newer than the last version whose experiments were looked at: measure "
        "bench/serving_grpc.py with and without the setting in orchestrator/server/grpc/transport/"
        "library.py, and raise LAST_EXAMINED there."
    )


def test_the_setting_is_known_to_this_version_and_not_left_to_other_processes() -> None:
    found = loaded()
    assert found.stdout == "None\n"
    assert found.stderr == ""


def test_a_setting_of_the_user_stays() -> None:
    found = loaded(GRPC_EXPERIMENTS="chosen_by_the_user")
    assert found.stdout == "chosen_by_the_user\n"
    assert "event_engine_listener" not in found.stderr
