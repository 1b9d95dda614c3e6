"""The tutorials of inference in one process: their programs, run as a user runs them, and what each
step gives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindir_models import file_of, saved
from primitives import Writer, same

import rankmesh as mslite
from rankmesh.launch.compat import compat_path

PROGRAM = (Path(__file__).parents[1] / "data" / "documents" / "quick_start.py").read_text()
CPU = """context.target = ["cpu"]
context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2
"""
ASCEND = """context.target = ["ascend"]
context.ascend.device_id = 0
"""
GPU = """context.target = ["gpu"]
context.gpu.device_id = 0
"""
THREADS = """context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2
"""
NAMED = "tensor's name is:output_0 data size is:4000 tensor elements num is:1000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with ./model/mobilenetv2.mindir, which doubles [1, 1000] numbers, and its
    input.
    """
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "model").mkdir()
    data = np.arange(1000, dtype=np.float32).reshape(1, 1000) / 7
    writer = Writer()
    x = writer.argument(data)
    writer.save(folder / "model" / "mobilenetv2.mindir", writer.node("Add", [x, x], data), data)
    data.tofile(folder / "model" / "input.bin")
    return folder


def run(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "quick_start_cloud_infer_python.py"
    script.write_text(program)
    hidden = {"CUDA_VISIBLE_DEVICES": ""}  # a machine without accelerators, wherever this runs
    return subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": compat_path(), **hidden, **environment},
    )


def check(done: subprocess.CompletedProcess[str], missing: str = "") -> None:
    """What the tutorial promises was printed, with one warning where the target is `missing`."""
    assert done.returncode == 0, done.stderr
    head, values = done.stdout.splitlines()
    assert head == NAMED
    expected = np.arange(50, dtype=np.float32) / 7 * 2
    assert values.removeprefix("output data is: ").split() == [str(value) for value in expected]
    warnings = done.stderr.splitlines()
    assert len(warnings) == bool(missing), done.stderr
    assert all(
        f"target {missing}" in line and "running on cpu instead" in line for line in warnings
    )


def test_row_03_cpu_context_and_row_11_the_demo_script(folder: Path) -> None:
    check(run(folder, PROGRAM))


@pytest.mark.parametrize("threads", ["", THREADS], ids=["newest", "older"])
def test_row_04_ascend_context(folder: Path, threads: str) -> None:
    """Falls back: where there is no Ascend device, another one runs the model, with one warning."""
    check(run(folder, PROGRAM.replace(CPU, ASCEND + threads)), "ascend")


def test_row_05_ge_provider(folder: Path) -> None:
    """Falls back: where there is no Ascend device, another one runs the model; every provider runs
    alike.
    """
    check(run(folder, PROGRAM.replace(CPU, ASCEND + 'context.ascend.provider = "ge"\n')), "ascend")


@pytest.mark.parametrize("threads", ["", THREADS], ids=["newest", "older"])
def test_row_06_gpu_context(folder: Path, threads: str) -> None:
    """Falls back: where there is no GPU, the CPU runs the model, with one warning."""
    check(run(folder, PROGRAM.replace(CPU, GPU + threads)), "gpu")


@pytest.fixture
def mobilenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mslite.Model:
    """The tutorial's model as MindSpore exported it, built from the current folder as the tutorial
    builds it.
    """
    (tmp_path / "model").mkdir()
    shutil.copy(file_of("mobilenetv2"), tmp_path / "model")
    saved("mobilenetv2")[0][0].tofile(tmp_path / "model" / "input.bin")
    monkeypatch.chdir(tmp_path)
    context, model = mslite.Context(), mslite.Model()
    context.target, context.cpu.thread_num, context.cpu.thread_affinity_mode = ["cpu"], 1, 2
    model.build_from_file("./model/mobilenetv2.mindir", mslite.ModelType.MINDIR, context)
    return model


def test_row_07_loads_what_mindspore_exported(mobilenet: mslite.Model) -> None:
    assert str(mobilenet) == "model_path: ./model/mobilenetv2.mindir."
    assert [tensor.shape for tensor in mobilenet.get_inputs()] == [[1, 3, 64, 64]]


def test_row_08_input_from_a_file(mobilenet: mslite.Model) -> None:
    """The file's numbers are flat; the tensor keeps the model's shape."""
    inputs = mobilenet.get_inputs()
    inputs[0].set_data_from_numpy(np.fromfile("./model/input.bin", dtype=np.float32))
    assert inputs[0].shape == [1, 3, 64, 64]
    same(mobilenet.predict(inputs)[0].get_data_to_numpy(), saved("mobilenetv2")[1][0])


def test_row_09_predict_returns_a_list(mobilenet: mslite.Model) -> None:
    outputs = mobilenet.predict(saved("mobilenetv2")[0])
    assert type(outputs) is list and [type(output) for output in outputs] == [mslite.Tensor]


def test_row_10_attributes_of_an_output(mobilenet: mslite.Model) -> None:
    (output,), (reference,) = mobilenet.predict(saved("mobilenetv2")[0]), saved("mobilenetv2")[1]
    assert output.name.rstrip() == mobilenet.get_outputs()[0].name != ""
    assert (output.data_size, output.element_num) == (reference.nbytes, reference.size)
    same(output.get_data_to_numpy().flatten(), reference.flatten())


def test_row_12_compiled_once_it_infers_many_times(mobilenet: mslite.Model) -> None:
    (x,), (reference,) = saved("mobilenetv2")
    shutil.rmtree("model")  # nothing of the file is needed any more
    for factor in (1, 2, 1, 0.5, 1):
        result = mobilenet.predict([x * np.float32(factor)])[0].get_data_to_numpy()
        assert np.isfinite(result).all()
        if factor == 1:
            same(result, reference)


def test_the_variable_chooses_what_takes_the_place(folder: Path) -> None:
    twice = PROGRAM.replace(CPU, ASCEND) + PROGRAM[PROGRAM.index("# build model from file") :]
    done = run(folder, twice, RANKMESH_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1  # for two models


def test_a_caller_may_use_onnxruntime_beside_a_model(folder: Path) -> None:
    program = (
        PROGRAM.replace("thread_num = 1", "thread_num = 2")
        + """
import onnxruntime as ort
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
print(session.run(None, {"x": np.array([3], np.float32)}))
"""
    )
    done = run(folder, program)
    assert done.returncode == 0, done.stderr
    assert "[array([3.], dtype=float32)]" in done.stdout
