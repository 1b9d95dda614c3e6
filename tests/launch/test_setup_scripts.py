import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 250.0
"""Seconds for an environment of its own on a busy machine; pip alone computes for some."""
SCRIPTS = [
    "launch/setup.sh",
    "launch/run.sh",
    "launch/test.sh",
    "launch/gpu_check.sh",
    "launch/gpu_check_wheels.sh",
    ".ci/run",
]

# A project that pip installs without any index: it brings its own build backend and needs nothing.
PROJECT = """
[build-system]
requires = []
backend-path = ["."]
build-backend = "backend"

[project]
name = "rankmesh"
version = "1"
"""
BACKEND = """
import zipfile

INFO = "rankmesh-1.dist-info"
FILES = {
    "rankmesh_here.pth": "",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\\nName: rankmesh\\nVersion: 1\\n"
    "Provides-Extra: cpu\\nProvides-Extra: gpu\\nProvides-Extra: test\\n" + open("needs.txt").read(),
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\\nrankmesh = os:getcwd\\n",
}

def build_editable(folder, settings=None, metadata=None):
    record = "".join(f"{name},,\\n" for name in [*FILES, f"{INFO}/RECORD"])
    with zipfile.ZipFile(f"{folder}/rankmesh-1-py3-none-any.whl", "w") as wheel:
        for name, text in {**FILES, f"{INFO}/RECORD": record}.items():
            wheel.writestr(name, text)
    return "rankmesh-1-py3-none-any.whl"
"""  # noqa: E501


class Project:
    """A checkout in miniature with the real set-up script; pip finds no index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stamp = root / ".venv" / "rankmesh-setup.txt"
        (root / "launch").mkdir()
        for name in ("setup.sh", "constraints.txt"):
            shutil.copy(CHECKOUT / "launch" / name, root / "launch")
        (root / "pyproject.toml").write_text(PROJECT)
        (root / "backend.py").write_text(BACKEND)
        self.need("")

    def need(self, name: str) -> None:
        """Make the project depend on `name` (pyproject.toml changes with it)."""
        (self.root / "needs.txt").write_text(f"Requires-Dist: {name}\n" if name else "")
        (self.root / "pyproject.toml").write_text(f"{PROJECT}# {name}\n")

    def start(self, *extras: str, **environment: str) -> subprocess.Popen[str]:
        basic = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
        return subprocess.Popen(
            ["bash", str(self.root / "launch" / "setup.sh"), *extras],
            cwd="/",
            env={**basic, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def set_up(self, *extras: str, **environment: str) -> tuple[int, str]:
        process = self.start(*extras, **environment)
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("a checkout"))
    code, output = project.set_up()
    assert code == 0 and "making .venv" in output and "installing Rankmesh" in output, output
    return project


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_valid_and_may_be_run(script: str):
    assert os.access(CHECKOUT / script, os.X_OK)
    subprocess.run(["bash", "-n", str(CHECKOUT / script)], check=True, timeout=10)


@pytest.mark.slow
def test_a_finished_set_up_is_left_alone(project: Project):
    before = project.stamp.stat()
    assert project.set_up() == (0, "")
    after = project.stamp.stat()
    assert (after.st_ino, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )  # that it was read may show


def test_extras_add_up(project: Project):
    code, output = project.set_up("test")
    assert code == 0 and "making" not in output and "test" in output, output
    assert project.set_up() == (0, "")
    assert project.set_up("test") == (0, "")


def test_a_failed_update_says_so_and_leaves_the_old_set_up_whole(project: Project):
    project.need("no-such-thing-as-this")
    code, output = project.set_up()
    assert code == 1 and "pip could not install Rankmesh" in output, output
    project.need("")
    assert project.set_up() == (0, "")


@pytest.mark.slow
def test_an_unfinished_set_up_is_made_again_once_by_two_at_a_time(project: Project):
    project.stamp.unlink()
    starts = [project.start(), project.start()]
    outputs = [start.communicate(timeout=PATIENCE)[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0], outputs
    assert "".join(outputs).count("its set-up did not finish") == 1, outputs


@pytest.mark.slow
def test_missing_files_are_noticed_and_repaired(project: Project):
    (lost,) = project.root.glob(".venv/lib/python*/site-packages/rankmesh_here.pth")
    lost.unlink()
    code, output = project.set_up()
    assert code == 0 and "files are missing" in output, output
    assert lost.exists() and project.set_up() == (0, "")


@pytest.mark.slow
def test_a_gpu_that_appears_changes_the_extras_and_one_that_goes_does_not(
    project: Project, tmp_path: Path
):
    listing = tmp_path / "nvidia-smi"
    listing.write_text("#!/bin/sh\necho 'GPU 0: a device (UUID: GPU-0)'\n")
    listing.chmod(0o755)
    code, output = project.set_up(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert code == 0 and "there is an NVIDIA GPU now" in output, output
    extras = [line for line in project.stamp.read_text().splitlines() if line.startswith("extras ")]
    assert extras == ["extras gpu"]
    assert project.set_up() == (0, "")


def test_an_unsuitable_python_is_one_clear_answer(project: Project):
    code, output = project.set_up(PYTHON="/no/such/python")
    assert (
        code == 1
        and "needs Python 3.10 to 3.13" in output
        and "/no/such/python does not run" in output
    )
    assert "PYTHON=/path/to/python" in output
