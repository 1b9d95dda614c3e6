"""The page on torch modules: its programs run in order, as a reader would run them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "torch.md").read_text()

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def blocks(language: str) -> list[str]:
    """The page's code blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def python(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "RANKMESH_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    names = re.findall(r"Write this as `(\w+\.py)`", PAGE)
    for name, program in zip(names, blocks("python"), strict=True):
        (tmp_path / name).write_text(program)
    python(tmp_path, "mlp.py")
    (command,) = blocks("console")
    last = python(tmp_path, "-m", *command.split()).splitlines()[-1]
    assert last.startswith("OK: 2 outputs of 2 ranks match")
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "eager.py")
    assert python(tmp_path, *run).count("True") == 2  # their lines may mix
