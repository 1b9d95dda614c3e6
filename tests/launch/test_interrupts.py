"""Ctrl-C while a command still imports, or is at work: no traceback, no file, the signal's status.

tests/fuzz/sweep_interrupts.py tries many more moments.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from onnx_models import two_layers
from processes import COMMAND, PATIENCE

_AT_IMPORT = """
import os, signal, sys
from importlib.machinery import PathFinder

class Interrupting(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Interrupting
"""

MOMENTS = [
    ("slice", "typer"),
    ("slice", "highspy"),
    ("slice", "onnxruntime"),
    ("convert", "rankmesh.compiler.convert.conversion"),
]
"""A command, and the module at whose import the signal comes."""


@pytest.mark.parametrize(("command", "module"), MOMENTS)
def test_ctrl_c_ends_a_command_without_a_traceback(
    tmp_path: Path, command: str, module: str
) -> None:
    model, site = two_layers(tmp_path), tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_AT_IMPORT)
    flags = {
        "slice": [str(model), "--ranks", "2", "-o", str(tmp_path / "made")],
        "convert": [f"--modelFile={model}", f"--outputFile={tmp_path / 'made'}"],
    }
    done = subprocess.run(
        [*COMMAND, command, *flags[command]],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(site), "INTERRUPT_AT": module},
        # a shell has what it starts in the background ignore the signal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode in (-signal.SIGINT, 128 + signal.SIGINT), done
    assert "Traceback" not in done.stderr and done.stdout == ""
    made = tmp_path / "made"
    assert not made.with_suffix(".mindir").exists()
    assert not made.exists() or not list(made.iterdir())
