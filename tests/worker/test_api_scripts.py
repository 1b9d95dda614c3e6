"""The tutorials' programs, run as a user runs them, on a small model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from primitives import Writer

CONTEXTS = {
    "cpu": """
context.target = ["cpu"]
context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2
""",
    "ascend": """
context.target = ["ascend"]
context.ascend.device_id = 0
""",
    "ascend with ge": """
context.target = ["ascend"]
context.ascend.device_id = 0
context.ascend.provider = "ge"
""",
    "ascend and cpu": """
context.target = ["ascend"]
context.ascend.device_id = 0
context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2
""",
    "gpu": """
context.target = ["gpu"]
context.gpu.device_id = 0
""",
    "gpu and cpu": """
context.target = ["gpu"]
context.gpu.device_id = 0
context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2
""",
}
HEAD = """
import numpy as np
import rankmesh as mslite

context = mslite.Context()
"""
BODY = """
# build model from file
MODEL_PATH = "./model/mobilenetv2.mindir"
IN_DATA_PATH = "./model/input.bin"
model = mslite.Model()
model.build_from_file(MODEL_PATH, mslite.ModelType.MINDIR, context)
# set model input
inputs = model.get_inputs()
in_data = np.fromfile(IN_DATA_PATH, dtype=np.float32)
inputs[0].set_data_from_numpy(in_data)
# execute inference
outputs = model.predict(inputs)
# get output
for output in outputs:
  name = output.name.rstrip()
  data_size = output.data_size
  element_num = output.element_num
  print("tensor's name is:%s data size is:%s tensor elements num is:%s" % (name, data_size, element_num))
  data = output.get_data_to_numpy()
  data = data.flatten()
  print("output data is:", end=" ")
  for i in range(50):
    print(data[i], end=" ")
  print("")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with ./model/mobilenetv2.mindir, which doubles [1, 1000] numbers, and its input."""
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
    return subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **hidden, **environment})


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_tutorial_prints_what_it_promises(folder: Path, context: str):
    done = run(folder, HEAD + CONTEXTS[context] + BODY)
    assert done.returncode == 0, done.stderr
    head, values = done.stdout.splitlines()
    assert head.startswith("tensor's name is:")
    assert head.endswith(" data size is:4000 tensor elements num is:1000")
    expected = np.arange(50, dtype=np.float32) / 7 * 2
    assert values.split(": ", 1)[1].split() == [str(value) for value in expected]
    warnings = done.stderr.splitlines()
    missing = context.split()[0]
    assert len(warnings) == (missing != "cpu")
    assert all(f"target {missing}" in line and "running on cpu instead" in line for line in warnings)


def test_the_variable_chooses_what_takes_the_place(folder: Path):
    done = run(folder, HEAD + CONTEXTS["ascend"] + BODY + BODY, RANKMESH_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1  # for two models


def test_a_caller_may_use_onnxruntime_beside_a_model(folder: Path):
    program = HEAD + "context.cpu.thread_num = 2\n" + BODY + """
import onnxruntime as ort
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
print(session.run(None, {"x": np.array([3], np.float32)}))
"""
    done = run(folder, program)
    assert done.returncode == 0, done.stderr
    assert "[array([3.], dtype=float32)]" in done.stdout


def test_tensors_may_be_made_from_arrays_and_shapes_from_numpy(folder: Path):
    """The lines of the distributed tutorial and of the weight sharing program that any model may run."""
    program = HEAD + """
print(mslite.Model().get_model_info("current_pid"))
model = mslite.Model()
model.build_from_file("./model/mobilenetv2.mindir", mslite.ModelType.MINDIR, context, "", config_dict={})
inputs = model.get_inputs()
for input_i in inputs:
    input_i.set_data_from_numpy(np.ones(input_i.shape, dtype=np.float32))
print(model.predict(inputs)[0].get_data_to_numpy().flatten()[:3])
np_inputs = [np.full((2, 1000), 4, np.float32)]
model.resize(model.get_inputs(), [list(array.shape) for array in np_inputs])
outputs = model.predict([mslite.Tensor(np_input) for np_input in np_inputs])
print(outputs[0].shape, outputs[0].get_data_to_numpy().max())
"""
    done = run(folder, program)
    assert done.returncode == 0, done.stderr
    pid, ones, resized = done.stdout.splitlines()
    assert (int(pid) > 0, ones, resized) == (True, "[2. 2. 2.]", "[2, 1000] 8.0")
