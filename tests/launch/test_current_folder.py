"""No process of ours imports what lies in the current folder, whatever it is called, on any version
of Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from launched import of_each_rank
from mpirun import mpirun
from processes import COMMAND
from served_models import SAMPLE

from rankmesh.comm.processes.rank_process import RUN_MODULE

CONSOLE = [os.path.join(sysconfig.get_path("scripts"), "rankmesh")]
SHADOWED = (
    "json",
    "numpy",
    "onnx",
    "onnxruntime",
    "msgspec",
    "psutil",
    "runpy",
    "selectors",
    "socket",
    "rankmesh",
)
ARRAYS = str(Path(SAMPLE).parent / "Matmul.npz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One full of modules that end whoever imports them."""
    made = tmp_path / "current"
    made.mkdir()
    for name in SHADOWED:
        (made / f"{name}.py").write_text(
            f"import os\nos.write(2, b'{name} was taken from the current folder')\nos._exit(99)\n"
        )
    return made


def run(folder: Path, *command: str, **environment: str) -> str:
    """What a command in that folder prints; it must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert "was taken" not in done.stderr
    return done.stdout


def test_the_folder_would_be_imported_from(folder: Path) -> None:
    """What the other tests rest on."""
    done = subprocess.run(
        [sys.executable, "-c", "import json"], cwd=folder, capture_output=True, text=True
    )
    assert "json was taken from the current folder" in done.stderr


def test_rankmesh_run(folder: Path) -> None:
    run(folder, *CONSOLE, "run", SAMPLE, "--inputs", ARRAYS)


def test_python_m_rankmesh(folder: Path) -> None:
    """Python itself looks here for rankmesh and runpy, and nobody for anything else."""
    for name in ("rankmesh", "runpy"):
        (folder / f"{name}.py").unlink()
    run(folder, *COMMAND, "run", SAMPLE, "--inputs", ARRAYS)


BUILD = f"""
import sys
import rankmesh as mslite
import helper
model = mslite.Model()
model.build_from_file({SAMPLE!r}, mslite.ModelType.MINDIR, mslite.Context())
print(helper.TEXT)
"""


def script(tmp_path: Path, text: str) -> str:
    """A script in a folder of its own, with a module beside it."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "helper.py").write_text("TEXT = 'beside the script'\n")
    (home / "main.py").write_text(text)
    return str(home / "main.py")


def test_a_launched_script_imports_from_its_own_folder_first(folder: Path, tmp_path: Path) -> None:
    """As `python main.py` does."""
    path = script(tmp_path, BUILD)
    said = of_each_rank(run(folder, *CONSOLE, "launch", "--ranks", "2", path))
    assert said == dict.fromkeys((0, 1), ["beside the script"])


def test_a_script_launched_by_mpirun(folder: Path, tmp_path: Path) -> None:
    mpirun()  # or the test is skipped
    path = script(tmp_path, BUILD)
    said = run(
        folder,
        *CONSOLE,
        "launch",
        "--launcher",
        "mpirun",
        "--ranks",
        "2",
        path,
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    )
    assert said.count("beside the script") == 2


SERVE = f"""
import numpy as np
import rankmesh
with rankmesh.Orchestrator({SAMPLE!r}) as orchestrator:
    orchestrator.predict(np.ones((4, 16), np.float32))
"""


def test_the_ranks_of_an_orchestrator(folder: Path, tmp_path: Path) -> None:
    run(folder, sys.executable, script(tmp_path, SERVE))


def test_the_way_to_run_a_module_without_dash_p(folder: Path) -> None:
    """As Python 3.10 starts ranks; arguments stay."""
    (folder / "runpy.py").unlink()
    command = [sys.executable, "-c", RUN_MODULE, "json.tool", "--help"]
    assert "usage" in run(folder, *command)
    (folder / "json.py").rename(folder / "tool.py")
    command = [sys.executable, "-c", RUN_MODULE, "tool"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "No module named tool" in done.stderr
