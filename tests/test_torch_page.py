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
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all programs of the page."""
    names = re.findall(r"Write this as `(\w+\.py)`", PAGE)
    for name, program in zip(names, blocks("python"), strict=True):
        (tmp_path / name).write_text(program)
    return tmp_path


def test_the_programs_of_the_page_run(folder: Path) -> None:
    python(folder, "mlp.py")
    _, command = blocks("console")
    last = python(folder, "-m", *command.split()).splitlines()[-1]
    assert last.startswith("OK: 2 outputs of 2 ranks match")
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "eager.py")
    assert python(folder, *run).count("True") == 2  # their lines may mix


@pytest.mark.skipif(
    importlib.util.find_spec("onnxscript") is None, reason="onnxscript is not installed"
)
def test_a_module_is_sliced_and_its_shards_compute_what_torch_computes(folder: Path) -> None:
    assert "\nverified (blocks): " in python(folder, "sliced.py")
    command, _ = blocks("console")
    tolerances = ("--rtol", "1e-5", "--atol", "1e-5")
    last = python(folder, "-m", *command.split(), *tolerances).splitlines()[-1]
    assert last.startswith("OK: 2 outputs of 2 ranks match")
