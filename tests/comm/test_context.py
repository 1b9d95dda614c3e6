"""Context and its parts: every row of what scripts may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankmesh import AscendDeviceInfo, Context, CPUDeviceInfo, GPUDeviceInfo
from rankmesh.comm.errors import UsageError

pytestmark = pytest.mark.pure


def fails(error: type[Exception], text: str, target: object, name: str, value: object) -> None:
    with pytest.raises(error) as caught:
        setattr(target, name, value)
    assert text in str(caught.value)


def test_defaults():
    context = Context()
    assert (context.target, context.group_info_file, str(context)) == (
        ["cpu"],
        "",
        "target: ['cpu'].",
    )


@pytest.mark.parametrize("target", [["cpu"], ["Ascend"], ["GPU", "cpu"], ["ascend", "gpu", "CPU"]])
def test_target_gives_back_what_was_set(target: list[str]):
    context = Context()
    context.target = target
    assert context.target is target
    assert str(context) == f"target: {target}."


@pytest.mark.parametrize("nothing", [[], None])
def test_no_target_is_the_cpu(nothing: Any):
    context = Context()
    context.target = ["gpu"]
    context.target = nothing
    assert context.target == ["cpu"]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("cpu", TypeError, "target must be list, but got <class 'str'>."),
        (["cpu", 1], TypeError, "target element must be str, but got <class 'int'> at index 1."),
        (["TPU"], ValueError, "target elements must be in ['cpu', 'gpu', 'ascend'], but got tpu"),
    ],
)
def test_bad_targets(value: object, error: type[Exception], text: str):
    fails(error, text, Context(), "target", value)


def test_group_info_file():
    context = Context()
    context.group_info_file = "groups.ckpt"
    assert context.group_info_file == "groups.ckpt"
    fails(TypeError, "group_info_file must be str", context, "group_info_file", 1)


def test_attributes_that_nobody_knows_may_be_set():
    context = Context()
    context.gpu.provider = "tensorrt"
    context.cpu.enable_fp16 = False
    context.anything = context.ascend.anything = context.parallel.anything = 1
    assert (context.gpu.provider, context.cpu.enable_fp16, context.anything) == (
        "tensorrt",
        False,
        1,
    )


@pytest.mark.parametrize(
    ("part", "name", "default", "good"),
    [
        ("cpu", "thread_num", 0, 3),
        ("cpu", "inter_op_parallel_num", 0, 2),
        ("cpu", "thread_affinity_mode", 0, 2),
        ("cpu", "thread_affinity_core_list", [], [0, 1]),
        ("cpu", "precision_mode", "enforce_fp32", "preferred_fp16"),
        ("gpu", "device_id", 0, 1),
        ("gpu", "precision_mode", "enforce_fp32", "preferred_fp16"),
        ("gpu", "precision_mode", "enforce_fp32", "preferred_tf32"),
        ("cpu", "precision_mode", "enforce_fp32", "preferred_bf16"),
        ("ascend", "device_id", 0, 1),
        ("ascend", "rank_id", 0, 7),
        ("ascend", "provider", "", "ge"),
        ("ascend", "precision_mode", "", "enforce_origin"),
        ("parallel", "workers_num", 0, 4),
        ("parallel", "device_ids", [], [0, 1]),
        ("parallel", "config_path", "", ""),
        ("cpu", "thread_num", 0, True),
    ],
)
def test_each_attribute_has_its_default_and_takes_good_values(
    part: str, name: str, default: object, good: object
):
    context = Context()
    assert getattr(getattr(context, part), name) == default
    setattr(getattr(context, part), name, good)
    assert getattr(getattr(context, part), name) == good
    assert getattr(getattr(Context(), part), name) == default


@pytest.mark.parametrize(
    ("part", "name", "bad", "error", "text"),
    [
        ("cpu", "thread_num", "1", TypeError, "cpu_thread_num must be int, but got <class 'str'>."),
        ("cpu", "thread_num", -1, ValueError, "cpu_thread_num must be a non-negative int"),
        ("cpu", "inter_op_parallel_num", 1.0, TypeError, "cpu_inter_op_parallel_num must be int"),
        (
            "cpu",
            "inter_op_parallel_num",
            -1,
            ValueError,
            "cpu_inter_op_parallel_num must be a non-negative int",
        ),
        ("cpu", "thread_affinity_mode", "1", TypeError, "cpu_thread_affinity_mode must be int"),
        (
            "cpu",
            "thread_affinity_core_list",
            (1,),
            TypeError,
            "cpu_thread_affinity_core_list must be list",
        ),
        (
            "cpu",
            "thread_affinity_core_list",
            ["1"],
            TypeError,
            "cpu_thread_affinity_core_list element must be int",
        ),
        ("cpu", "precision_mode", 1, TypeError, "cpu_precision_mode must be str"),
        ("cpu", "precision_mode", "fp16", ValueError, "cpu_precision_mode must be in"),
        ("gpu", "device_id", "0", TypeError, "gpu_device_id must be int"),
        ("gpu", "device_id", -1, ValueError, "gpu_device_id must be a non-negative int"),
        ("gpu", "precision_mode", 1, TypeError, "gpu_precision_mode must be str"),
        ("gpu", "precision_mode", "fp16", ValueError, "gpu_precision_mode must be in"),
        ("gpu", "rank_id", 1, AttributeError, ""),
        ("gpu", "group_size", 2, AttributeError, ""),
        ("ascend", "device_id", "0", TypeError, "ascend_device_id must be int"),
        ("ascend", "device_id", -1, ValueError, "ascend_device_id must be a non-negative int"),
        ("ascend", "rank_id", "0", TypeError, "ascend_rank_id must be int"),
        ("ascend", "rank_id", -1, ValueError, "ascend_rank_id must be a non-negative int"),
        ("ascend", "provider", 1, TypeError, "ascend_provider must be str"),
        ("ascend", "precision_mode", 1, TypeError, "ascend_precision_mode must be str"),
        (
            "ascend",
            "precision_mode",
            "preferred_fp16",
            ValueError,
            "ascend_precision_mode must be in",
        ),
        ("parallel", "workers_num", "4", TypeError, "workers_num must be int"),
        ("parallel", "workers_num", -1, ValueError, "workers_num must be a non-negative int"),
        ("parallel", "device_ids", 0, TypeError, "device_ids must be list"),
        ("parallel", "device_ids", ["0"], TypeError, "device_ids element must be int"),
        ("parallel", "device_ids", [0, -1], ValueError, "device_ids contain a negative number"),
        ("parallel", "config_path", 1, TypeError, "config_path must be str"),
        ("parallel", "config_path", "/no/such.ini", ValueError, "config_path does not exist"),
        ("parallel", "config_info", [], TypeError, "config_info must be dict"),
        ("parallel", "config_info", {1: {}}, TypeError, "config_info_key must be str"),
        ("parallel", "config_info", {"a": 1}, TypeError, "config_info_value must be dict"),
        (
            "parallel",
            "config_info",
            {"a": {1: "b"}},
            TypeError,
            "config_info_value_key must be str",
        ),
        (
            "parallel",
            "config_info",
            {"a": {"b": 1}},
            TypeError,
            "config_info_value_value must be str",
        ),
    ],
)
def test_bad_values(part: str, name: str, bad: object, error: type[Exception], text: str):
    context = Context()
    before = getattr(getattr(context, part), name)
    fails(error, text, getattr(context, part), name, bad)
    assert getattr(getattr(context, part), name) == before


@pytest.mark.parametrize("mode", [3, -1])
def test_an_unknown_affinity_mode_is_none_with_a_warning(
    mode: int, caplog: pytest.LogCaptureFixture
):
    context = Context()
    context.cpu.thread_affinity_mode = mode
    assert context.cpu.thread_affinity_mode == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "mode",
    ["enforce_fp32", "preferred_fp32", "enforce_fp16", "enforce_origin", "preferred_optimal"],
)
def test_precisions_of_ascend(mode: str):
    context = Context()
    context.ascend.precision_mode = mode
    assert f"precision_mode: {mode}" in str(context.ascend)


def test_str_of_the_parts():
    context = Context()
    assert str(context.cpu).splitlines() == [
        "device_type: DeviceType.kCPU,",
        "precision_mode: enforce_fp32,",
        "thread_num: 0,",
        "inter_op_parallel_num: 0,",
        "thread_affinity_mode: 0,",
        "thread_affinity_core_list: [].",
    ]
    assert str(context.gpu).splitlines() == [
        "device_type: DeviceType.kGPU,",
        "precision_mode: enforce_fp32,",
        "device_id: 0,",
        "rank_id: 0,",
        "group_size: 1.",
    ]
    assert str(context.ascend) == (
        "device_type: DeviceType.kAscend,\nprecision_mode: ,\ndevice_id: 0.provider: .rank_id: 0."
    )
    context.parallel.workers_num = 4
    context.parallel.config_info = {"weight": {"weight_path": "path"}}
    assert (
        str(context.parallel)
        == "workers num: 4,\nconfig info: weight: weight_path path,\nconfig file: ."
    )


def test_config_info_is_merged_by_section_and_read_as_text():
    parallel = Context().parallel
    assert parallel.config_info == ""
    parallel.config_info = {"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}
    parallel.config_info = {"b": {"z": "4"}, "c": {"w": "5"}}
    assert parallel.config_info == "a: x 1\na: y 2\nb: z 4\nc: w 5"


def test_a_config_path_that_exists(tmp_path: Path):
    file = tmp_path / "a.ini"
    file.write_text("")
    context = Context()
    context.parallel.config_path = str(file)
    assert context.parallel.config_path == str(file)


def test_lists_are_copies():
    context, cores = Context(), [0]
    context.cpu.thread_affinity_core_list = cores
    cores.append(1)
    context.cpu.thread_affinity_core_list.append(2)
    assert context.cpu.thread_affinity_core_list == [0]


def test_the_rank_of_a_gpu_is_read_from_the_launcher_each_time(monkeypatch: pytest.MonkeyPatch):
    gpu = Context().gpu
    assert (gpu.rank_id, gpu.group_size) == (0, 1)
    for name, value in (("RANK", 1), ("SIZE", 2), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 2)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    old = GPUDeviceInfo()
    assert (gpu.rank_id, gpu.group_size, old.get_rank_id(), old.get_group_size()) == (1, 2, 1, 2)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    with pytest.raises(UsageError, match="Open MPI"):
        _ = gpu.rank_id


def test_whether_rank_and_device_were_given_is_known():
    context = Context()
    assert not context.ascend.rank_id_given and not context.ascend.device_id_given
    context.ascend.rank_id = 0
    assert context.ascend.rank_id_given and not context.ascend.device_id_given
    context.ascend.device_id = 0
    assert context.ascend.device_id_given


def test_a_context_of_older_scripts():
    context = Context(
        thread_num=1,
        inter_op_parallel_num=1,
        thread_affinity_mode=1,
        thread_affinity_core_list=[],
        enable_parallel=False,
    )
    context.append_device_info(CPUDeviceInfo())
    assert str(context).startswith(
        "thread_num: 1,\ninter_op_parallel_num: 1,\nthread_affinity_mode: "
        "1,\nthread_affinity_core_list: [],\n"
        "enable_parallel: False,\ndevice_list: 0, ."
    )
    assert "target: ['cpu']" in str(context)
    assert context.cpu.thread_num == 1


def test_an_old_context_without_devices_lists_none():
    assert "device_list: .\n" in str(Context(thread_num=1))


def test_appended_devices_are_targets():
    context = Context(thread_num=2)
    context.append_device_info(AscendDeviceInfo(3))
    context.append_device_info(GPUDeviceInfo(1, enable_fp16=True))
    assert context.target == ["ascend", "gpu"]
    assert (context.ascend.device_id, context.gpu.device_id, context.gpu.precision_mode) == (
        3,
        1,
        "preferred_fp16",
    )
    assert "device_list: 3, 1, ." in str(context)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"thread_num": "1"}, TypeError, "thread_num must be int"),
        ({"thread_num": -1}, ValueError, "thread_num must be a non-negative int"),
        ({"inter_op_parallel_num": "1"}, TypeError, "inter_op_parallel_num must be int"),
        (
            {"inter_op_parallel_num": -1},
            ValueError,
            "inter_op_parallel_num must be a non-negative int",
        ),
        ({"thread_affinity_mode": "1"}, TypeError, "thread_affinity_mode must be int"),
        ({"thread_affinity_core_list": 1}, TypeError, "thread_affinity_core_list must be list"),
        (
            {"thread_affinity_core_list": ["1"]},
            TypeError,
            "thread_affinity_core_list element must be int",
        ),
        ({"enable_parallel": 1}, TypeError, "enable_parallel must be bool"),
    ],
)
def test_bad_arguments_of_older_scripts(arguments: dict, error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        Context(**arguments)
    assert text in str(caught.value)


def test_str_of_the_devices_of_older_scripts():
    assert str(CPUDeviceInfo()) == "device_type: DeviceType.kCPU,\nenable_fp16: False."
    assert (
        str(GPUDeviceInfo(1)) == "device_type: DeviceType.kGPU,\ndevice_id: 1,\nenable_fp16: False."
    )
    assert str(AscendDeviceInfo()) == "device_type: DeviceType.kAscend,\ndevice_id: 0."


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: CPUDeviceInfo(enable_fp16=1), TypeError, "enable_fp16 must be bool"),
        (lambda: GPUDeviceInfo(device_id="0"), TypeError, "device_id must be int"),
        (lambda: GPUDeviceInfo(device_id=-1), ValueError, "device_id must be a non-negative int"),
        (
            lambda: AscendDeviceInfo(device_id=-1),
            ValueError,
            "device_id must be a non-negative int",
        ),
        (lambda: Context().append_device_info("cpu"), TypeError, "device_info must be DeviceInfo"),
    ],
)
def test_bad_devices_of_older_scripts(make: Any, error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)
