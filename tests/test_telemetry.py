"""onnxruntime's telemetry: no run writes a device id into the user's folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "data" / "mindir" / "mlp" / "mlp.mindir"
BUILD = (
    "import sys, rankmesh; rankmesh.Model().build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR)"
)
COMMANDS = {
    "script": ("-c", BUILD, str(MODEL)),
    "run": ("-m", "rankmesh", "run", str(MODEL), "--device", "cpu"),
    "own import": ("-c", "import rankmesh, onnxruntime"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_under_home(command: str, tmp_path: Path) -> None:
    """onnxruntime 1.31 writes, as soon as it is imported,
    .cache/Microsoft/DeveloperTools/.onnxruntime/deviceid.
    """
    unset = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "RANKMESH_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, *COMMANDS[command]],
        capture_output=True,
        text=True,
        timeout=250,
        env={**environment, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_who_wants_it_may_have_it() -> None:
    program = "import rankmesh, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "0"},
    )
    assert done.stdout == "0\n"
