"""The tutorial on multi-card inference: its programs as written, processes and pipes included, on a
small model.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from primitives import Parameter, Writer

from rankmesh.launch.compat import compat_path

SCRIPTS = Path(__file__).parents[1] / "data" / "documents" / "multicard"
WEIGHT = np.random.default_rng(0).standard_normal((1024, 4), np.float32) / 32
MODEL = "SD2.1_size512_bs1.mindir"
KEPT = (
    'np.savez("run.npz", sample=sample, states=encoder_hidden_states, first=predict_result[0], '
    "second=predict_result[1])\n"
)
PROBE = """
import numpy as np
from mslite_engine import MSLitePredict
from parallel_predict_utils import ParallelPredictUtils

def wrong(work):
    try:
        work()
    except RuntimeError as error:
        print("parent:", error, flush=True)

if __name__ == "__main__":
    inputs = [np.ones((1, 4, 64, 64), np.float32), np.ones(1, np.float32), np.zeros((1, 77, 1024), np.float32)]
    results = MSLitePredict("MODEL", 0).run(inputs)
    print(type(results).__name__, [(type(array).__name__, array.shape, float(array.max())) for array in results])
    wrong(ParallelPredictUtils("no_such.mindir", 2).build_model)
    one = ParallelPredictUtils("MODEL", 1)
    one.build_model()
    wrong(lambda: one.run_predict([inputs[:2]]))
""".replace("MODEL", f"./{MODEL}")  # noqa: E501


def write_model(path: Path) -> None:
    """sample * timestep + mean(encoder_hidden_states, 1) @ WEIGHT, for one image of Stable
    Diffusion 2.1.
    """
    sample, states = np.zeros((1, 4, 64, 64), np.float32), np.zeros((1, 77, 1024), np.float32)
    step, seen = np.zeros(1, np.float32), np.zeros((1, 4), np.float32)
    writer = Writer()
    x, t, h = (writer.argument(array) for array in (sample, step, states))
    mean = writer.node(
        "ReduceMean", [h, (1,)], np.zeros((1, 1024), np.float32), {"keep_dims": False}
    )
    product = writer.node(
        "MatMul", [mean, Parameter(WEIGHT)], seen, {"transpose_a": False, "transpose_b": False}
    )
    noise = writer.node("Reshape", [product, (1, 4, 1, 1)], np.zeros((1, 4, 1, 1), np.float32))
    scaled = writer.node("Mul", [x, t], sample)
    writer.save(path, writer.node("Add", [scaled, noise], sample), sample)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's folder: its scripts, and the model for one card."""
    folder = tmp_path_factory.mktemp("multicard")
    for script in SCRIPTS.glob("*.py"):
        shutil.copy(script, folder)
    write_model(folder / MODEL)
    return folder


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        env={
            **os.environ,
            "PYTHONPATH": compat_path(),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONUNBUFFERED": "",
        },
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def printed(folder: Path) -> list[str]:
    """The lines of the main program, which also keeps its inputs and results in run.npz."""
    script = folder / "main.py"
    script.write_text(script.read_text() + f"    {KEPT}")
    done = run(folder, script.name)
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def probed(folder: Path) -> subprocess.CompletedProcess[str]:
    """What the classes do alone, and when something goes wrong."""
    (folder / "probe.py").write_text(PROBE)
    return run(folder, "probe.py")


def test_row_38_model_conversion(folder: Path, tmp_path: Path) -> None:
    """The document's command, with a MindIR as its source; tests/worker/api/test_converter.py has
    it with an ONNX model.
    """
    (source,) = folder.glob("**/*.mindir")
    command = [f"{compat_path()}/bin/converter_lite", f"--modelFile={source}", "--fmk=MINDIR"]
    command += [f"--outputFile={tmp_path}/SD2.1_size512_bs1", "--optimize=ascend_oriented"]
    environment = {"PYTHON": sys.executable, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines()[0] == "CONVERT RESULT SUCCESS:0", done.stderr
    assert (tmp_path / "SD2.1_size512_bs1.mindir").exists()


def test_row_39_engine_class(probed: subprocess.CompletedProcess[str]) -> None:
    """Falls back: where there is no Ascend device, another one runs the model, with a warning in
    each process.
    """
    assert "list [('ndarray', (1, 4, 64, 64), 1.0)]" in probed.stdout
    assert "target ascend: this machine has no such device" in probed.stderr


def test_row_40_pipe_protocol(printed: list[str]) -> None:
    assert printed[:2] == ["Success to build model 0", "Success to build model 1"]


def test_row_41_errors_reach_the_parent(probed: subprocess.CompletedProcess[str]) -> None:
    """With their sentence there, and their traceback in the log of the process."""
    build, predict = re.findall(r"^parent: (.*)$", probed.stdout, re.M)
    assert build.startswith(
        "Failed to build model 0, exception occur: build_from_file failed, model_path does not "
    )
    assert predict == "Failed to call predict, exception occur: list index out of range"
    assert probed.stderr.count("ERROR:root:") == 2 and "Traceback" in probed.stderr


def test_row_42_slices_without_batch_axis(folder: Path, printed: list[str]) -> None:
    """sample[0] is [4, 64, 64], the timestep a number; what counts is their size."""
    assert printed
    with np.load(folder / "run.npz") as file:
        assert file["sample"].shape == (2, 4, 64, 64) and file["states"].shape == (2, 77, 1024)
        assert file["first"].shape == (1, 1, 4, 64, 64)  # a list of one output


def test_row_43_end_of_run(printed: list[str]) -> None:
    time, *rest = printed[2:]
    assert re.fullmatch(r"Total predict time =  [\d.e-]+", time)
    assert rest == ["Receive exit message  and start to exit"] * 2 + [
        "=========== success ==========="
    ]


def test_row_44_results_in_order_make_the_full_batch(folder: Path, printed: list[str]) -> None:
    """Spliced together they are the model's results for the batch of two; float32 sums of 1024
    numbers.
    """
    assert printed
    with np.load(folder / "run.npz") as file:
        spliced = np.concatenate([file["first"][0], file["second"][0]])
        expected = (
            file["sample"] * np.float32(50)
            + (file["states"].mean(1) @ WEIGHT)[:, :, np.newaxis, np.newaxis]
        )
    np.testing.assert_allclose(spliced, expected, rtol=1e-5, atol=1e-5)
