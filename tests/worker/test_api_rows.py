"""Rows of the API that belong to no single class: signatures, what counts as an int, settings in any order, texts."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import built, fails, file_of

import rankmesh as mslite
from rankmesh.comm.device_info import DeviceInfo

REQUIRED = inspect.Parameter.empty
SIGNATURES: dict[Any, dict[str, Any]] = {
    mslite.Context: {"thread_num": None, "inter_op_parallel_num": None, "thread_affinity_mode": None,
                     "thread_affinity_core_list": None, "enable_parallel": False},
    mslite.Context.append_device_info: {"self": REQUIRED, "device_info": REQUIRED},
    mslite.CPUDeviceInfo: {"enable_fp16": False},
    mslite.GPUDeviceInfo: {"device_id": 0, "enable_fp16": False},
    mslite.AscendDeviceInfo: {"device_id": 0},
    mslite.Model: {},
    mslite.Model.build_from_file: {
        "self": REQUIRED, "model_path": REQUIRED, "model_type": REQUIRED, "context": None, "config_path": "",
        "config_dict": None, "dec_key": None, "dec_mode": "AES-GCM", "dec_num_parallel": 0},
    mslite.Model.get_inputs: {"self": REQUIRED},
    mslite.Model.get_outputs: {"self": REQUIRED},
    mslite.Model.predict: {"self": REQUIRED, "inputs": REQUIRED, "outputs": None},
    mslite.Model.resize: {"self": REQUIRED, "inputs": REQUIRED, "dims": REQUIRED},
    mslite.Model.get_input_by_tensor_name: {"self": REQUIRED, "tensor_name": REQUIRED},
    mslite.Model.get_output_by_tensor_name: {"self": REQUIRED, "tensor_name": REQUIRED},
    mslite.Tensor: {"tensor": None, "shape": None, "dtype": None, "device": None},
    mslite.Tensor.set_data_from_numpy: {"self": REQUIRED, "numpy_obj": REQUIRED},
    mslite.Tensor.get_data_to_numpy: {"self": REQUIRED},
    mslite.LLMReq: {"prompt_cluster_id": REQUIRED, "req_id": REQUIRED, "prompt_length": REQUIRED},
    mslite.LLMClusterInfo: {"remote_role": REQUIRED, "remote_cluster_id": REQUIRED},
    mslite.LLMEngine: {"role": REQUIRED, "cluster_id": REQUIRED, "batch_mode": "auto"},
    mslite.LLMEngine.add_model: {"self": REQUIRED, "model_paths": REQUIRED, "options": REQUIRED,
                                 "postprocess_model_path": None},
    mslite.LLMEngine.link_clusters: {"self": REQUIRED, "clusters": REQUIRED, "timeout": -1},
    mslite.LLMEngine.unlink_clusters: {"self": REQUIRED, "clusters": REQUIRED, "timeout": -1},
    mslite.LiteInfer: {"model_or_net": REQUIRED, "net_inputs": REQUIRED, "context": None, "model_group_id": None,
                       "config": None},
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_scripts_may_call_by_keyword_and_by_position(function: Any):
    found = inspect.signature(function).parameters.values()
    assert {p.name: p.default for p in found} == SIGNATURES[function]
    assert [p.name for p in found] == list(SIGNATURES[function])


COUNTS = ["cpu.thread_num", "cpu.inter_op_parallel_num", "cpu.thread_affinity_mode", "gpu.device_id",
          "ascend.device_id", "ascend.rank_id", "parallel.workers_num"]


@pytest.mark.parametrize("place", COUNTS)
def test_a_numpy_number_is_no_int_and_a_bool_is(place: str):
    part, name = place.split(".")
    own = getattr(mslite.Context(), part)
    fails(TypeError, f"{name} must be int, but got <class 'numpy.int64'>.", setattr, own, name, np.int64(1))
    setattr(own, name, True)
    assert getattr(own, name) == 1


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
    assert (context.target, context.cpu.thread_num, str(context)) == (["ascend"], 2, "target: ['ascend'].")


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


@pytest.mark.parametrize("kind", [mslite.CPUDeviceInfo, mslite.GPUDeviceInfo, mslite.AscendDeviceInfo])
def test_old_devices_have_one_base(kind: type):
    assert issubclass(kind, DeviceInfo) and mslite.DeviceInfo is DeviceInfo


def test_an_old_context_and_a_new_one_say_the_same():
    old, new = mslite.Context(3, 2, 1, [0], False), mslite.Context()
    old.append_device_info(mslite.GPUDeviceInfo(2, enable_fp16=True))
    old.append_device_info(mslite.CPUDeviceInfo(enable_fp16=True))
    new.cpu.thread_num, new.cpu.inter_op_parallel_num, new.cpu.thread_affinity_mode = 3, 2, 1
    new.cpu.thread_affinity_core_list, new.target = [0], ["gpu", "cpu"]
    new.gpu.device_id, new.gpu.precision_mode, new.cpu.precision_mode = 2, "preferred_fp16", "preferred_fp16"
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
@pytest.mark.parametrize("version", [b"MSL1", b"MSL2"])
def test_a_lite_model_says_what_to_do_with_it(tmp_path: Path, first: int, version: bytes):
    path = tmp_path / "m.ms"
    path.write_bytes(bytes([first, 0, 0, 0]) + version + bytes(64))
    fails(mslite.ModelError, f"{path}: is a MindSpore Lite FlatBuffers model (.ms), not MindIR: convert with "
                             f"converter_lite --saveType=MINDIR, or export MindIR.", mslite.Model().build_from_file,
          str(path), mslite.ModelType.MINDIR_LITE)
