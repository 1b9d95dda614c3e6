"""The runner's API, both generations: what it checks, in which order, and in which words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import fails, file_of, saved
from primitives import same

from rankmesh import (
    Context,
    CPUDeviceInfo,
    DataType,
    Format,
    GPUDeviceInfo,
    ModelParallelRunner,
    RunnerConfig,
    Tensor,
)

MLP = file_of("mlp")
BUILD, INIT = "ModelParallelRunner's build from file", "ModelParallelRunner's init"


def two_workers() -> Context:
    context = Context()
    context.cpu.thread_num, context.parallel.workers_num = 1, 2
    return context


def old_context() -> Context:
    context = Context(thread_num=1, inter_op_parallel_num=1)
    context.append_device_info(CPUDeviceInfo(enable_fp16=False))
    return context


@pytest.fixture(scope="module")
def runner() -> ModelParallelRunner:
    made = ModelParallelRunner()
    made.build_from_file(MLP, two_workers())
    return made


def filled(runner: ModelParallelRunner) -> list[Tensor]:
    inputs = runner.get_inputs()
    inputs[0].set_data_from_numpy(saved("mlp")[0][0])
    return inputs


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((1, None), TypeError, "model_path must be str, but got"),
        (
            ("none.mindir", 1),
            RuntimeError,
            f"{BUILD} failed, model_path does not exist!",
        ),  # before the context's type
        ((MLP, 1), TypeError, "context must be Context, but got"),
        ((MLP, RunnerConfig()), TypeError, "context must be Context, but got"),
    ],
)
def test_build_checks_its_arguments_in_order(
    arguments: Any, error: type[Exception], text: str
) -> None:
    fails(error, text, ModelParallelRunner().build_from_file, *arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((1, None), TypeError, "model_path must be str, but got"),
        (("none.mindir", 1), RuntimeError, f"{INIT} failed, model_path does not exist!"),
        ((MLP, Context()), TypeError, "runner_config must be RunnerConfig, but got"),
        (
            (MLP, RunnerConfig(context=Context(thread_num=1))),
            RuntimeError,
            f"{INIT} failed! Error is the context has no ",
        ),
        (
            (MLP, RunnerConfig(context=Context())),
            RuntimeError,
            f"{INIT} failed! Error is the context has no device",
        ),
    ],
)
def test_init_checks_its_arguments_in_order(
    arguments: Any, error: type[Exception], text: str
) -> None:
    fails(error, text, ModelParallelRunner().init, *arguments)


def with_(change: Callable[[Context], None]) -> Context:
    context = two_workers()
    change(context)
    return context


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (
            with_(lambda c: setattr(c.cpu, "thread_affinity_mode", 2)),
            "thread_affinity_mode is 2 (middle cores)",
        ),
        (
            with_(lambda c: setattr(c.parallel, "workers_num", 100_000)),
            "workers_num is 100000, expected at most",
        ),
        (
            with_(lambda c: setattr(c.parallel, "config_info", {"weight": {"path": "x"}})),
            "[weight]",
        ),
        (
            with_(
                lambda c: setattr(
                    c.parallel, "config_info", {str(i): {"k": "v"} for i in range(101)}
                )
            ),
            "101 sections",
        ),
    ],
)
def test_what_cannot_be_had_fails_the_build(context: Context, text: str) -> None:
    runner = ModelParallelRunner()
    fails(RuntimeError, f"{BUILD} failed! Error is", runner.build_from_file, MLP, context)
    fails(RuntimeError, text, runner.build_from_file, MLP, context)
    fails(RuntimeError, "predict failed!", runner.predict, [])


def test_a_corrupt_model_and_shards_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mindir"
    bad.write_bytes(b"\xff" * 100)
    fails(
        RuntimeError, f"{BUILD} failed! Error is", ModelParallelRunner().build_from_file, str(bad)
    )
    shards = f"{Path(file_of('dist_tp_mlp_2')).parent}/dist_tp_mlp_2_rank{{rank}}.mindir"
    fails(RuntimeError, "there are 2 shards", ModelParallelRunner().build_from_file, shards)
    fails(
        RuntimeError,
        "was sliced for 2 ranks",
        ModelParallelRunner().build_from_file,
        shards.format(rank=0),
    )


def test_the_configuration_file_counts_too(tmp_path: Path) -> None:
    (tmp_path / "c.ini").write_text("[weight]\npath=x\n")
    context = two_workers()
    context.parallel.config_path = str(tmp_path / "c.ini")
    fails(RuntimeError, "[weight]", ModelParallelRunner().build_from_file, MLP, context)
    fails(
        RuntimeError,
        "[weight]",
        ModelParallelRunner().init,
        MLP,
        RunnerConfig(old_context(), config_path=str(tmp_path / "c.ini")),
    )


def test_devices_have_no_effect_on_a_cpu(caplog: pytest.LogCaptureFixture) -> None:
    context = two_workers()
    context.parallel.device_ids = [0, 1]
    with caplog.at_level(logging.WARNING):
        ModelParallelRunner().build_from_file(MLP, context)
    assert "device_ids [0, 1] have no effect on a CPU" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "text"),
    [
        (Tensor(np.ones(1, np.float32)), None, TypeError, "inputs must be list"),
        ([np.ones((4, 16), np.float32)], None, TypeError, "inputs element must be Tensor"),
        ([], Tensor(), TypeError, "outputs must be list"),
        ([], [1], TypeError, "outputs element must be Tensor"),
        (
            [],
            None,
            RuntimeError,
            "predict failed! Error is model input len:1 not equal input len:0!",
        ),
        ([Tensor(np.ones((4, 16), np.float64))], None, RuntimeError, "predict failed!"),
        ([Tensor(np.ones((4, 16, 2), np.float32))], None, RuntimeError, "predict failed!"),
        ([Tensor(np.ones((4, 17), np.float32))], None, RuntimeError, "predict failed!"),
        ([Tensor(shape=[4, 16], dtype=DataType.FLOAT32)], None, RuntimeError, "never got any data"),
    ],
)
def test_predict_checks_its_arguments(
    runner: ModelParallelRunner, inputs: Any, outputs: Any, error: type[Exception], text: str
) -> None:
    fails(error, text, runner.predict, inputs, outputs)


def test_before_a_build(tmp_path: Path) -> None:
    runner = ModelParallelRunner()
    assert (str(runner), runner.get_inputs(), runner.get_outputs()) == ("model_path: .", [], [])
    fails(RuntimeError, "predict failed! Error is the runner is not built", runner.predict, [])


def test_a_second_build_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(MLP, two_workers())
    with caplog.at_level(logging.WARNING):
        runner.build_from_file(file_of("lenet5"), two_workers())
        runner.init(file_of("lenet5"))
    assert caplog.text.count("has been built from") == 2
    assert str(runner) == f"model_path: {MLP}."
    assert repr(runner) == f"ModelParallelRunner({str(MLP)!r})"
    same(runner.predict(filled(runner))[0].get_data_to_numpy(), saved("mlp")[1][0])


def test_inputs_and_outputs_are_described_anew_each_time(runner: ModelParallelRunner) -> None:
    first, second = runner.get_inputs()[0], runner.get_inputs()[0]
    assert (first.shape, first.dtype, first.format, first.name) == (
        [4, 16],
        DataType.FLOAT32,
        Format.NCHW,
        "x",
    )
    first.shape = [1, 16]
    first.name = "other"
    assert (second.shape, second.name, runner.get_inputs()[0].shape) == ([4, 16], "x", [4, 16])
    (output,) = runner.get_outputs()
    assert (output.shape, output.dtype) == (list(saved("mlp")[1][0].shape), DataType.FLOAT32)


def test_results_are_returned_and_written_where_they_are_wanted(
    runner: ModelParallelRunner,
) -> None:
    reference = saved("mlp")[1][0]
    mine = np.zeros_like(reference)
    outputs = [Tensor(mine)]
    assert runner.predict(filled(runner), outputs) is outputs
    same(mine, reference)
    empty: list[Tensor] = []
    assert runner.predict(filled(runner), empty) is empty
    same(empty[0].get_data_to_numpy(), reference)
    fails(
        RuntimeError,
        "1 output, got 2 tensors",
        runner.predict,
        filled(runner),
        [Tensor(), Tensor()],
    )


def test_after_init_the_list_of_outputs_is_refilled() -> None:
    runner = ModelParallelRunner()
    runner.init(model_path=MLP, runner_config=RunnerConfig(context=old_context(), workers_num=1))
    outputs: list[Tensor] = []
    runner.predict(filled(runner), outputs)
    (first,) = outputs
    same(first.get_data_to_numpy(), saved("mlp")[1][0])
    assert runner.predict(filled(runner), outputs) is outputs
    assert len(outputs) == 1 and outputs[0] is not first
    assert outputs[0].get_tensor_name() == first.get_tensor_name() != ""


def test_init_takes_no_configuration_too() -> None:
    runner = ModelParallelRunner()
    runner.init(MLP)
    same(runner.predict(filled(runner))[0].get_data_to_numpy(), saved("mlp")[1][0])
    assert str(runner) == f"model_path: {MLP}."


def test_later_changes_of_the_context_count_until_the_build() -> None:
    context = Context()
    parallel = context.parallel
    parallel.workers_num = 1
    context.cpu.thread_affinity_mode = 2
    fails(RuntimeError, "middle cores", ModelParallelRunner().build_from_file, MLP, context)
    context.cpu.thread_affinity_mode = 0
    ModelParallelRunner().build_from_file(MLP, context)


def test_a_gpu_that_is_missing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    context = Context(thread_num=1)
    context.append_device_info(GPUDeviceInfo())
    runner = ModelParallelRunner()
    runner.init(MLP, RunnerConfig(context, 1))
    same(runner.predict(filled(runner))[0].get_data_to_numpy(), saved("mlp")[1][0])
