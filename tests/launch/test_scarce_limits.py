"""Commands with few open files and small files: one sentence, and the remedy."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest
from onnx import save
from onnx_models import model, node
from processes import COMMAND, PATIENCE

FILES, SIZE = resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE


@pytest.mark.parametrize(
    ("arguments", "limit", "most", "remedy"),
    [
        (["serve", "--port", "0"], FILES, 24, "may have 24: raise its limit of open files"),
        (["run"], FILES, 16, "16 open files, and needs more: raise its limit of open files"),
        (["run"], SIZE, 4096, "may write 4096 bytes to a file or to shared memory"),
        (["run", "--ranks", "1000000000"], FILES, 1000, "--ranks: got 1000000000, expected at"),
    ],
)
def test_one_sentence(
    tmp_path: Path, arguments: list[str], limit: int, most: int, remedy: str
) -> None:
    save(model([node("Neg", "x", "y")], {"x": [1]}, {"y": [1]}), tmp_path / "m.onnx")
    done = subprocess.run(
        [*COMMAND, *arguments, str(tmp_path / "m.onnx")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert remedy in done.stderr.splitlines()[-1]
