"""The tutorial of concurrent inference: its program as written, on a small model, and each of its
steps.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from mindir_models import built, file_of, saved
from primitives import same

import rankmesh as mslite
from rankmesh.launch.compat import compat_path

PROGRAM = Path(__file__).parents[1] / "data" / "documents" / "concurrent_inference.py"
TASKS = 5 * 2  # of all clients
COUNT = """
import threading
print("workers:", sum(thread.name.startswith("rankmesh-runner-") for thread in threading.enumerate()))
"""  # noqa: E501


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the program prints with three workers, as it stands."""
    return run(tmp_path_factory.mktemp("three"), PROGRAM.read_text())


@functools.cache
def lite_file() -> str:
    """The network as a .ms file, which a Converter makes."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    converter = mslite.Converter()
    converter.save_type = mslite.ModelType.MINDIR_LITE
    converter.convert(mslite.FmkType.MINDIR, file_of("mobilenetv2"), f"{folder}/mobilenetv2")
    return f"{folder}/mobilenetv2.ms"


def run(folder: Path, program: str, file: str = "", x: np.ndarray | None = None) -> str:
    """What the program prints, with a .ms file and an input."""
    (folder / "model").mkdir()
    shutil.copyfile(file or lite_file(), folder / "model" / "mobilenetv2.ms")
    (saved("mobilenetv2")[0][0] if x is None else x).tofile(folder / "model" / "input.bin")
    script = folder / "quick_start_server_inference_python.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": compat_path(), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check_tasks(text: str) -> None:
    """All tasks of all clients, with the values of a Model; threads print in pieces, between those
    of others.
    """
    for phrase in ("parallel id: ", "| task index: ", "| run once time: ", "output data is:"):
        assert text.count(phrase) == TASKS, phrase
    expected = first_values(lite_file(), saved("mobilenetv2")[0][0])
    assert all(text.count(str(value)) == TASKS for value in expected)


def first_values(path: str, x: np.ndarray) -> np.ndarray:
    """The first five numbers of the result, by a Model."""
    model = mslite.Model()
    model.build_from_file(path, mslite.ModelType.MINDIR_LITE, old_context())
    (result,) = model.predict([mslite.Tensor(x)])
    return result.get_data_to_numpy().ravel()[:5]


def old_context() -> mslite.Context:
    """As the tutorial makes it."""
    cpu_device_info = mslite.CPUDeviceInfo(enable_fp16=False)
    context = mslite.Context(thread_num=1, inter_op_parallel_num=1)
    context.append_device_info(cpu_device_info)
    return context


def runner() -> mslite.ModelParallelRunner:
    made = mslite.ModelParallelRunner()
    made.init(
        model_path=file_of("mlp"),
        runner_config=mslite.RunnerConfig(context=old_context(), workers_num=3),
    )
    return made


def answer(made: mslite.ModelParallelRunner) -> list[mslite.Tensor]:
    inputs, outputs = made.get_inputs(), []
    inputs[0].set_data_from_numpy(saved("mlp")[0][0].ravel())
    made.predict(inputs, outputs)
    return outputs


def test_row_23_old_context() -> None:
    context = old_context()
    assert "thread_num: 1,\ninter_op_parallel_num: 1,\n" in str(
        context
    ) and "device_list: 0, ." in str(context)
    assert (context.target, context.cpu.precision_mode) == (["cpu"], "enforce_fp32")


def test_row_24_runner_config() -> None:
    """A runner has the workers that it asks for."""
    config = mslite.RunnerConfig(context=old_context(), workers_num=3)
    assert str(config).startswith(
        "workers num: 3,\n"
    ) and "context: thread num: 1, bind mode: 0,\n" in str(config)
    others = threading.enumerate()
    made = runner()
    names = {thread.name for thread in threading.enumerate() if thread not in others}
    assert names == {"rankmesh-runner-0", "rankmesh-runner-1", "rankmesh-runner-2"}
    answer(made)


def test_row_25_runner_init() -> None:
    """From a path and a configuration; `.ms` is a name like any other, which row 26 uses."""
    made = runner()
    assert [tensor.shape for tensor in made.get_inputs()] == [[4, 16]]
    same(answer(made)[0].get_data_to_numpy(), saved("mlp")[1][0])


def test_row_26_concurrent_predict(printed: str) -> None:
    """With the file that the tutorial names: a .ms file, which computes what MindIR does."""
    check_tasks(printed)
    wanted = built("mobilenetv2").predict(saved("mobilenetv2")[0])[0].get_data_to_numpy()
    found = first_values(lite_file(), saved("mobilenetv2")[0][0])
    np.testing.assert_allclose(found, wanted.ravel()[:5], rtol=1e-4, atol=1e-5)


def test_row_26_with_a_file_of_mindspore_lite(tmp_path: Path) -> None:
    file = Path(__file__).parents[1] / "data" / "ms" / "lenet_tod_infer.ms"
    x = np.random.default_rng(1).random((2, 32, 32, 1), np.float32)
    text = run(tmp_path, PROGRAM.read_text(), str(file), x)
    assert all(text.count(str(value)) >= TASKS for value in first_values(str(file), x))
    assert (
        text.count("fc3-Dense/BiasAdd-op121 tensor size is:80 tensor elements num is:20") == TASKS
    )


def test_row_27_old_tensor_getters(printed: str) -> None:
    (y,) = saved("mobilenetv2")[1]
    described = f"tensor name is:output_0 tensor size is:{y.nbytes} tensor elements num is:{y.size}"
    assert (
        printed.count(described) == TASKS
    )  # another thread's digits may follow before the line ends
    (output,) = answer(runner())
    assert output.get_tensor_name().rstrip() == "output_0"
    assert (output.get_data_size(), output.get_element_num()) == (160, 40)
    same(output.get_data_to_numpy(), saved("mlp")[1][0])


def test_row_28_total_time(printed: str) -> None:
    assert re.search(r"^total run time:  [\d.e-]+  s$", printed, re.MULTILINE)


def test_row_29_one_worker_is_serial(tmp_path: Path) -> None:
    """One thread answers all requests, and thus one after the other."""
    text = run(tmp_path, PROGRAM.read_text().replace("WORKERS_NUM = 3", "WORKERS_NUM = 1") + COUNT)
    check_tasks(text)
    assert text.endswith("\nworkers: 1\n")
