"""Rows of the API that belong to no single class: signatures, what counts as an int, settings in
any order, texts.
"""

from __future__ import annotations

import inspect
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import built, fails, file_of
from primitives import Parameter, Writer

import rankmesh as mslite
from rankmesh.worker.api.llm.engine import LLMModel
from rankmesh.worker.api_types.device_context import DeviceInfo

REQUIRED = inspect.Parameter.empty
SIGNATURES: dict[Any, dict[str, Any]] = {
    mslite.Context: {
        "thread_num": None,
        "inter_op_parallel_num": None,
        "thread_affinity_mode": None,
        "thread_affinity_core_list": None,
        "enable_parallel": False,
    },
    mslite.Context.append_device_info: {"self": REQUIRED, "device_info": REQUIRED},
    mslite.CPUDeviceInfo: {"enable_fp16": False},
    mslite.GPUDeviceInfo: {"device_id": 0, "enable_fp16": False},
    mslite.AscendDeviceInfo: {"device_id": 0},
    mslite.Model: {},
    mslite.Model.build_from_file: {
        "self": REQUIRED,
        "model_path": REQUIRED,
        "model_type": REQUIRED,
        "context": None,
        "config_path": "",
        "config_dict": None,
        "dec_key": None,
        "dec_mode": "AES-GCM",
        "dec_num_parallel": 0,
    },
    mslite.Model.get_inputs: {"self": REQUIRED},
    mslite.Model.get_outputs: {"self": REQUIRED},
    mslite.Model.predict: {"self": REQUIRED, "inputs": REQUIRED, "outputs": None},
    mslite.Model.resize: {"self": REQUIRED, "inputs": REQUIRED, "dims": REQUIRED},
    mslite.Model.get_model_info: {"self": REQUIRED, "key": None},
    mslite.Model.update_weights: {"self": REQUIRED, "weights": REQUIRED},
    mslite.Model.get_input_by_tensor_name: {"self": REQUIRED, "tensor_name": REQUIRED},
    mslite.Model.get_output_by_tensor_name: {"self": REQUIRED, "tensor_name": REQUIRED},
    mslite.Tensor: {"tensor": None, "shape": None, "dtype": None, "device": None},
    mslite.Tensor.set_data_from_numpy: {"self": REQUIRED, "numpy_obj": REQUIRED},
    mslite.Tensor.get_data_to_numpy: {"self": REQUIRED},
    mslite.TensorMeta: {},
    mslite.RunnerConfig: {
        "context": None,
        "workers_num": None,
        "config_info": None,
        "config_path": None,
    },
    mslite.ModelParallelRunner: {},
    mslite.ModelParallelRunner.build_from_file: {
        "self": REQUIRED,
        "model_path": REQUIRED,
        "context": None,
    },
    mslite.ModelParallelRunner.init: {
        "self": REQUIRED,
        "model_path": REQUIRED,
        "runner_config": None,
    },
    mslite.ModelParallelRunner.get_inputs: {"self": REQUIRED},
    mslite.ModelParallelRunner.get_outputs: {"self": REQUIRED},
    mslite.ModelParallelRunner.predict: {"self": REQUIRED, "inputs": REQUIRED, "outputs": None},
    mslite.ModelGroup: {"flags": mslite.ModelGroupFlag.SHARE_WORKSPACE},
    mslite.ModelGroup.add_model: {"self": REQUIRED, "models": REQUIRED},
    mslite.ModelGroup.cal_max_size_of_workspace: {
        "self": REQUIRED,
        "model_type": REQUIRED,
        "context": REQUIRED,
    },
    mslite.LLMReq: {"prompt_cluster_id": REQUIRED, "req_id": REQUIRED, "prompt_length": REQUIRED},
    mslite.LLMClusterInfo: {"remote_role": REQUIRED, "remote_cluster_id": REQUIRED},
    mslite.LLMEngine: {"role": REQUIRED, "cluster_id": REQUIRED, "batch_mode": "auto"},
    mslite.LLMEngine.add_model: {
        "self": REQUIRED,
        "model_paths": REQUIRED,
        "options": REQUIRED,
        "postprocess_model_path": None,
    },
    mslite.LLMEngine.link_clusters: {"self": REQUIRED, "clusters": REQUIRED, "timeout": -1},
    mslite.LLMEngine.unlink_clusters: {"self": REQUIRED, "clusters": REQUIRED, "timeout": -1},
    mslite.LLMEngine.init: {"self": REQUIRED, "options": REQUIRED},
    mslite.LLMEngine.complete_request: {"self": REQUIRED, "llm_req": REQUIRED},
    LLMModel.predict: {"self": REQUIRED, "llm_req": REQUIRED, "inputs": REQUIRED},
    LLMModel.pull_kv: {"self": REQUIRED, "llm_req": REQUIRED},
    LLMModel.merge_kv: {
        "self": REQUIRED,
        "llm_req": REQUIRED,
        "batch_index": REQUIRED,
        "batch_id": 0,
    },
    LLMModel.preload_prompt_prefix: {"self": REQUIRED, "llm_req": REQUIRED, "inputs": REQUIRED},
    LLMModel.release_prompt_prefix: {"self": REQUIRED, "llm_req": REQUIRED},
    mslite.LiteInfer.predict: {"self": REQUIRED, "inputs": REQUIRED},
    mslite.LiteInfer.resize: {"self": REQUIRED, "inputs": REQUIRED, "dims": REQUIRED},
    mslite.LiteInfer: {
        "model_or_net": REQUIRED,
        "net_inputs": REQUIRED,
        "context": None,
        "model_group_id": None,
        "config": None,
    },
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_scripts_may_call_by_keyword_and_by_position(function: Any):
    found = inspect.signature(function).parameters.values()
    assert {p.name: p.default for p in found} == SIGNATURES[function]
    assert [p.name for p in found] == list(SIGNATURES[function])


COUNTS = [
    "cpu.thread_num",
    "cpu.inter_op_parallel_num",
    "cpu.thread_affinity_mode",
    "gpu.device_id",
    "ascend.device_id",
    "ascend.rank_id",
    "parallel.workers_num",
]


@pytest.mark.parametrize("place", COUNTS)
def test_a_numpy_number_is_no_int_and_a_bool_is(place: str):
    part, name = place.split(".")
    own = getattr(mslite.Context(), part)
    fails(
        TypeError,
        f"{name} must be int, but got <class 'numpy.int64'>.",
        setattr,
        own,
        name,
        np.int64(1),
    )
    setattr(own, name, True)
    assert getattr(own, name) == 1


def test_numpy_numbers_are_no_ints_in_lists_and_constructors_either():
    model, one = built("mlp"), np.int64(1)
    fails(
        TypeError,
        "dims element's element must be int",
        model.resize,
        model.get_inputs(),
        [[one, 16]],
    )
    fails(TypeError, "thread_num must be int", mslite.Context, thread_num=one)
    fails(TypeError, "workers_num must be int", mslite.RunnerConfig, workers_num=one)
    fails(TypeError, "device_id must be int", mslite.AscendDeviceInfo, one)
    fails(
        TypeError, "dec_num_parallel must be int", built, "mlp", dec_key=b"k", dec_num_parallel=one
    )
    fails(
        TypeError,
        "device_ids element must be int, but got <class 'numpy.int64'> at index 1.",
        setattr,
        mslite.Context().parallel,
        "device_ids",
        [0, one],
    )


@pytest.mark.parametrize(
    "make",
    [
        mslite.Model,
        mslite.ModelParallelRunner,
        mslite.ModelGroup,
        mslite.RunnerConfig,
        mslite.CPUDeviceInfo,
        mslite.GPUDeviceInfo,
        mslite.AscendDeviceInfo,
        mslite.Tensor,
        mslite.TensorMeta,
        mslite.Context,
    ],
)
def test_scripts_may_set_attributes_that_nobody_knows(make: Any):
    made = make()
    made.anything = 1
    assert made.anything == 1


def test_kinds_of_source():
    assert {kind.name: kind.value for kind in mslite.FmkType} == {
        "TF": 0,
        "CAFFE": 1,
        "ONNX": 2,
        "MINDIR": 3,
        "TFLITE": 4,
        "PYTORCH": 5,
    }


def longest_pause(work: threading.Thread) -> tuple[float, float]:
    """How long `work` lasts, and the longest that this thread could not run meanwhile, in
    seconds."""
    work.start()
    began = last = time.perf_counter()
    pause = 0.0
    while work.is_alive():
        now = time.perf_counter()
        pause, last = max(pause, now - last), now
    return last - began, pause


def test_predict_holds_up_no_other_thread(tmp_path: Path):
    """A request of a tenth of a second and more; a busy machine may pause this thread now and then,
    not each time.
    """
    writer, x = Writer(), np.ones((2048, 1024), np.float32)
    key, weight = writer.argument(x), Parameter(np.eye(1024, dtype=np.float32))
    for _ in range(4):
        key = writer.node("MatMul", [key, weight], x, {"transpose_a": False, "transpose_b": False})
    context, model = mslite.Context(), mslite.Model()
    context.cpu.thread_num = 1
    model.build_from_file(
        str(writer.save(tmp_path / "long.mindir", key, x)), mslite.ModelType.MINDIR, context
    )
    for _ in range(10):
        lasted, pause = longest_pause(threading.Thread(target=model.predict, args=([x],)))
        if pause < lasted / 3:
            return
    raise AssertionError(f"a request of {lasted:.3f} s held up another thread for {pause:.3f} s")


@pytest.mark.parametrize("target_first", [True, False])
def test_attributes_may_be_set_before_or_after_the_target(target_first: bool):
    context = mslite.Context()
    if target_first:
        context.target = ["ascend"]
    context.ascend.device_id, context.ascend.rank_id, context.ascend.provider = 1, 1, "ge"
    context.cpu.thread_num = 2
    if not target_first:
        context.target = ["ascend"]
    text = str(context.ascend)
    assert all(part in text for part in ("device_id: 1", "provider: ge", "rank_id: 1"))
    assert (context.target, context.cpu.thread_num, str(context)) == (
        ["ascend"],
        2,
        "target: ['ascend'].",
    )


@pytest.mark.parametrize("target", [["ascend"], ["gpu"], ["Ascend", "cpu"]])
def test_a_target_that_is_not_there_is_no_error(target: list[str], monkeypatch: pytest.MonkeyPatch):
    """Not when it is set, and not when a model is built: something else takes its place."""
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    context, model = mslite.Context(), mslite.Model()
    context.target = target
    model.build_from_file(file_of("mlp"), mslite.ModelType.MINDIR, context)
    assert model.get_inputs()[0].shape == [4, 16]


def test_an_empty_config_path_changes_nothing(tmp_path: Path):
    (tmp_path / "a.ini").touch()
    parallel = mslite.Context().parallel
    parallel.config_path = str(tmp_path / "a.ini")
    parallel.config_path = ""
    assert parallel.config_path == str(tmp_path / "a.ini")


@pytest.mark.parametrize(
    "kind", [mslite.CPUDeviceInfo, mslite.GPUDeviceInfo, mslite.AscendDeviceInfo]
)
def test_old_devices_have_one_base(kind: type):
    assert issubclass(kind, DeviceInfo) and mslite.DeviceInfo is DeviceInfo


def test_an_old_context_and_a_new_one_say_the_same():
    old, new = mslite.Context(3, 2, 1, [0], False), mslite.Context()
    old.append_device_info(mslite.GPUDeviceInfo(2, enable_fp16=True))
    old.append_device_info(mslite.CPUDeviceInfo(enable_fp16=True))
    new.cpu.thread_num, new.cpu.inter_op_parallel_num, new.cpu.thread_affinity_mode = 3, 2, 1
    new.cpu.thread_affinity_core_list, new.target = [0], ["gpu", "cpu"]
    new.gpu.device_id, new.gpu.precision_mode, new.cpu.precision_mode = (
        2,
        "preferred_fp16",
        "preferred_fp16",
    )
    assert (old.target, str(old.cpu), str(old.gpu)) == (new.target, str(new.cpu), str(new.gpu))
    assert "device_list: 1, 0, ." in str(old) and "target: ['gpu', 'cpu']." in str(old)


def test_outputs_are_descriptions_and_tensors_of_either_generation():
    model = built("mlp")
    (output,) = model.get_outputs()
    assert isinstance(output, mslite.Tensor) and isinstance(output, mslite.TensorMeta)
    assert (output.shape, output.element_num, output.get_data_size()) == ([4, 10], 40, 160)
    (result,) = model.predict([np.ones((4, 16), np.float32)], model.get_outputs())
    assert result.get_tensor_name() == output.name


@pytest.mark.parametrize("first", [8, 28])
@pytest.mark.parametrize(
    ("version", "text"),
    [
        (b"MSL1", "begins with the mark b'MSL1', expected b'MSL2'"),
        (b"MSL2", "not a readable .ms file: "),
    ],
)
def test_a_lite_model_says_what_is_wrong_with_it(
    tmp_path: Path, first: int, version: bytes, text: str
):
    path = tmp_path / "m.ms"
    path.write_bytes(bytes([first, 0, 0, 0]) + version + bytes(64))
    fails(
        mslite.ModelError,
        f"{path}: {text}",
        mslite.Model().build_from_file,
        str(path),
        mslite.ModelType.MINDIR_LITE,
    )
