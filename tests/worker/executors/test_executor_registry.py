"""Executors by name: Rankmesh's own, and one that another installed package brings."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import rankmesh
from shards import summing

from rankmesh import UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.executors.registry import executor_named, running_on, suited_to
from rankmesh.worker.executors.settings import ExecutorSettings, asked_executor

PACKAGE = '''
"""An executor on onnx's reference implementation, which notes each segment that it prepares."""

import os

import numpy as np
from onnx.reference import ReferenceEvaluator


class Prepared:
    def __init__(self, segment):
        self.outputs = list(segment.outputs)
        self.inputs = segment.inputs
        self.evaluator = ReferenceEvaluator(segment.model)

    def run(self, inputs, outputs):
        found = self.evaluator.run(self.outputs, dict(zip(self.inputs, inputs)))
        for given, result in zip(outputs, found):
            if given is not None:
                np.copyto(given, result)
        return [result if given is None else given for given, result in zip(outputs, found)]


class Reference:
    name = "reference"
    options = "reference"

    def __init__(self, settings):
        from rankmesh.worker.executors.base import ExecutorDevice

        self.device = ExecutorDevice(settings.device, settings.device_id)

    def prepare(self, segment, folder, memory={}):
        with open(os.environ["PREPARED"], "a") as file:
            print(segment.outputs, file=file)
        return Prepared(segment)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that brings the executor `reference`."""
    folder = tmp_path / "installed"
    information = folder / "reference_executor-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "reference_executor.py").write_text(PACKAGE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: reference-executor\n")
    (information / "entry_points.txt").write_text(
        "[rankmesh.executors]\nreference = reference_executor:Reference\n"
        "broken = reference_executor:Missing\n"
    )
    return folder


def test_ranks_run_with_the_executor_of_another_package(tmp_path: Path, package: Path) -> None:
    prepared = tmp_path / "prepared"
    done = rankmesh(
        "run",
        summing(tmp_path),
        "--device",
        "cpu",
        PYTHONPATH=str(package),
        RANKMESH_EXECUTOR="reference",
        PREPARED=str(prepared),
        RANKMESH_CACHE="off",
    )
    assert done.returncode == 0, done.stderr
    assert len(prepared.read_text().splitlines()) >= 2


@pytest.mark.pure
def test_a_name_that_no_package_brings_is_an_error_with_those_there_are(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package)
    with pytest.raises(
        UsageError, match="'other', expected one of onnxruntime, torch, broken, reference"
    ):
        executor_named("other")
    with pytest.raises(
        UsageError, match=r"broken, and its executor .*Missing\) cannot be imported"
    ):
        executor_named("broken")


def test_packages_are_asked_for_unknown_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", None)
    executor_named.cache_clear()
    assert executor_named("onnxruntime").__module__ == "rankmesh.worker.executors.onnxruntime"


@pytest.mark.pure
def test_the_environment_names_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ExecutorSettings().name == ""
    monkeypatch.setenv("RANKMESH_EXECUTOR", "reference")
    assert ExecutorSettings().name == "reference"


@pytest.mark.pure
def test_a_configuration_names_the_executor_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKMESH_EXECUTOR", raising=False)
    config = Config({"gpu_context": {"executor": '"torch"'}}, "")
    assert asked_executor(config, "gpu") == "torch" and asked_executor(config, "cpu") == ""
    monkeypatch.setenv("RANKMESH_EXECUTOR", "onnxruntime")
    assert asked_executor(config, "gpu") == "onnxruntime"


def test_the_device_chooses_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime for a CPU; for a GPU without it, torch where that finds the GPU."""
    onnxruntime = import_module("rankmesh.worker.executors.onnxruntime")
    torch = pytest.importorskip("rankmesh.worker.executors.torch")
    assert suited_to("cpu") == "onnxruntime"
    for there, chosen in ((True, "onnxruntime"), (False, "torch")):
        running_on.cache_clear()
        monkeypatch.setattr(onnxruntime, "runs_on", lambda device, there=there: there)
        monkeypatch.setattr(torch, "runs_on", lambda device: True)
        assert suited_to("gpu") == chosen
    running_on.cache_clear()
    monkeypatch.setattr(torch, "runs_on", lambda device: False)
    assert suited_to("gpu") == "onnxruntime"
    running_on.cache_clear()


def test_to_ask_for_an_npu_imports_no_torch() -> None:
    """Scripts with the target ascend ask for it at each start, and torch takes two seconds."""
    if find_spec("torch_npu"):
        pytest.skip("there is torch_npu")
    program = "import sys; from rankmesh.worker.session.hardware import cann_there; "
    program += "print(cann_there(), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")
