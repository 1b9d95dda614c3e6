"""The installation scripts of the examples, in an environment of their own, where pip finds no
index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from processes import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = CHECKOUT / "examples"
TUTORIAL_LINE = (
    r"tensor's name is:(\S+) data size is:(\d+) tensor elements num is:(\d+)\noutput data is: (.*)"
)


class Clone:
    """A copy of the checkout and an active environment without Rankmesh; pip finds no index."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clone"
        shutil.copytree(CHECKOUT, self.root, ignore=_left_out)
        self.venv = folder / "venv"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True, timeout=250
        )
        self.python = str(self.venv / "bin" / "python")
        (self.packages,) = self.venv.glob("lib/python*/site-packages")
        # What Rankmesh depends on, pip and setuptools are those of the environment that runs this.
        (self.packages / "outer.pth").write_text(sysconfig.get_paths()["purelib"])

    def run(self, folder: str, *command: str, **environment: str) -> tuple[int, str]:
        """The exit code and everything that a command prints, in a folder of the clone."""
        path = f"{self.venv}/bin{os.pathsep}{os.environ['PATH']}"
        # 0 is what pip takes for `--no-build-isolation` and `--no-compile` from the environment.
        settings = {
            "PATH": path,
            "VIRTUAL_ENV": str(self.venv),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_NO_COMPILE": "0",
            "CUDA_VISIBLE_DEVICES": "",
        }
        done = subprocess.run(
            command,
            cwd=self.root / folder,
            env={**settings, **environment},
            text=True,
            timeout=110,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What a clone of the checkout does not need, or what was made in it."""
    made = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "model")
    own = {"tests", "bench"} if Path(folder) == CHECKOUT else set()
    return made(folder, names) | own


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("install"))


@pytest.mark.slow
def test_row_01_one_command_installation(clone: Clone) -> None:
    """As the document says: the script, then the program, in that folder; the script a second time
    as well.
    """
    before = {path for path in clone.root.rglob("*")}
    code, text = clone.run(
        "examples/single", "bash", "./lite-cpu-pip.sh", MINDSPORE_LITE_VERSION="2.0.0"
    )
    assert code == 0 and re.search(r"^Successfully installed rankmesh-\S+$", text, re.M), text
    assert text.splitlines()[-1] == "Successfully installed mindspore-lite-2.0.0+rankmesh"
    model = clone.root / "examples" / "single" / "model"
    assert {path for path in clone.root.rglob("*") if "__pycache__" not in path.parts} - before == {
        model,
        model / "mobilenetv2.mindir",
        model / "input.bin",
    }
    code, text = clone.run("examples/single", "python", "quick_start_cloud_infer_python.py")
    assert code == 0 and re.search(TUTORIAL_LINE, text), text
    code, text = clone.run(
        ".", clone.python, "-c", "import rankmesh, mindspore_lite as m; print(rankmesh, m)"
    )
    assert code == 0 and text.count(str(clone.packages / "rankmesh")) == 2, text


@pytest.mark.slow
def test_row_22_installation_of_the_runner_from_wheels_and_files_of_the_users(clone: Clone) -> None:
    """Wheels beside the script are installed, and files in `model` stay as they are."""
    folder = clone.root / "examples" / "concurrent"
    wheel = [clone.python, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), str(clone.root)]
    code, text = clone.run(".", *wheel)
    assert code == 0, text
    maker = str(clone.root / "examples" / "mindspore_lite_wheel.py")
    code, text = clone.run(".", sys.executable, maker, "1.9.9", str(folder))
    assert code == 0, text
    (folder / "model").mkdir()
    (folder / "model" / "input.bin").write_bytes(b"mine")
    code, text = clone.run(
        "examples/concurrent", "bash", "./lite-server-cpu-pip.sh", MINDSPORE_LITE_VERSION="1.9.0"
    )
    assert code == 0 and f"Processing {folder}/rankmesh-" in text, text
    assert re.search(r"^Successfully installed rankmesh-\S+$", text, re.M), text
    assert text.splitlines()[-1] == "Successfully installed mindspore-lite-1.9.9+rankmesh"
    assert (folder / "model" / "input.bin").read_bytes() == b"mine"
    assert (folder / "model" / "mobilenetv2.ms").exists()


@pytest.mark.parametrize(
    "script, version, message",
    [
        (
            "single/lite-cpu-pip.sh",
            "1.9.0",
            "MINDSPORE_LITE_VERSION is 1.9.0, and this Python API begins with 2.0.0",
        ),
        ("concurrent/lite-server-cpu-pip.sh", "1.7.0", "MINDSPORE_LITE_VERSION is 1.7.0"),
        (
            "single/lite-cpu-pip.sh",
            "latest",
            "MINDSPORE_LITE_VERSION is 'latest', expected a version such as 2.0.0",
        ),
    ],
)
def test_a_version_that_cannot_be_is_refused(script: str, version: str, message: str) -> None:
    done = subprocess.run(
        ["bash", str(EXAMPLES / script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd="/",
        env={"PATH": os.environ["PATH"], "MINDSPORE_LITE_VERSION": version},
    )
    assert done.returncode == 1 and f"{script.split('/')[1]}: {message}" in done.stderr
