"""What precision a user may ask for, and what models then compute."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launched import script
from mindir_models import DATA, built, file_of, saved
from onnx import helper
from primitives import same
from processes import rankmesh

from rankmesh import Context, CPUDeviceInfo, GPUDeviceInfo, Model, ModelType
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.model_file.config import Config
from rankmesh.compiler.onnx_graph.element_types import BFLOAT16, FLOAT, HALF
from rankmesh.worker.executors import precise
from rankmesh.worker.executors.precise import Precision
from rankmesh.worker.executors.settings import PrecisionSettings


def context_of(target: str, mode: str | None = None) -> Context:
    context = Context()
    context.target = [target]
    context.cpu.thread_num = 1
    if mode is not None:
        getattr(context, target).precision_mode = mode
    return context


@pytest.mark.parametrize(
    ("target", "device", "mode", "expected"),
    [
        ("cpu", "cpu", None, FLOAT),
        ("cpu", "cpu", "enforce_fp32", FLOAT),
        ("cpu", "cpu", "preferred_fp16", HALF),
        ("cpu", "cpu", "preferred_bf16", BFLOAT16),
        ("gpu", "gpu", "preferred_bf16", BFLOAT16),
        ("gpu", "gpu", "preferred_tf32", None),
        ("gpu", "gpu", None, None),
        ("gpu", "gpu", "enforce_fp32", FLOAT),
        ("gpu", "cpu", "preferred_fp16", HALF),
        ("gpu", "cpu", None, FLOAT),
        ("ascend", "ascend", None, None),
        ("ascend", "cpu", None, FLOAT),
        ("ascend", "cpu", "enforce_fp32", FLOAT),
        ("ascend", "cpu", "preferred_fp32", None),
        ("ascend", "cpu", "enforce_fp16", HALF),
        ("ascend", "cpu", "enforce_origin", None),
        ("ascend", "cpu", "preferred_optimal", FLOAT),
        ("ascend", "ascend", "preferred_optimal", HALF),
    ],
)
def test_modes_of_contexts(target: str, device: str, mode: str | None, expected: int | None):
    assert PrecisionSettings.asked(context_of(target, mode), Config(), device).mode == expected


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (CPUDeviceInfo(enable_fp16=True), HALF),
        (CPUDeviceInfo(), FLOAT),
        (GPUDeviceInfo(0, enable_fp16=True), HALF),
    ],
)
def test_modes_of_device_infos(device: Any, expected: int):
    context = Context(thread_num=1)
    context.append_device_info(device)
    assert PrecisionSettings.asked(context, Config(), "cpu").mode == expected


def test_the_mode_is_that_of_the_device_which_runs():
    context = Context()
    context.target = ["gpu", "cpu"]
    context.gpu.precision_mode = "preferred_fp16"
    assert PrecisionSettings.asked(context, Config(), "gpu").mode == HALF
    assert PrecisionSettings.asked(context, Config(), "cpu").mode == FLOAT


@pytest.mark.parametrize(
    ("target", "section", "key", "text", "expected"),
    [
        ("gpu", "gpu_context", "precision_mode", "preferred_fp16", HALF),
        ("ascend", "ascend_context", "precision_mode", '"enforce_fp16"', HALF),
        ("ascend", "ge_session_options", "ge.exec.precision_mode", "force_fp16", HALF),
        ("ascend", "ge_global_options", "ge.exec.precision_mode", "must_keep_origin_dtype", None),
        ("ascend", "acl_init_options", "ge.exec.precision_mode", "allow_fp32_to_fp16", None),
        ("cpu", "ascend_context", "precision_mode", "enforce_fp16", FLOAT),
    ],
)  # of another target
def test_modes_of_configurations_override_the_context(
    target: str, section: str, key: str, text: str, expected: int | None
):
    config = Config({section: {key: text}})
    assert (
        PrecisionSettings.asked(context_of(target, "enforce_fp32"), config, "cpu").mode == expected
    )


def test_tf32_is_a_mode_of_its_own():
    for mode, tf32 in (("preferred_tf32", True), ("enforce_fp32", False)):
        assert PrecisionSettings.asked(context_of("gpu", mode), Config(), "gpu").tf32 is tf32


def test_an_unknown_mode_is_named_and_ignored(caplog: pytest.LogCaptureFixture):
    config = Config({"ascend_context": {"precision_mode": "cube_hif8"}})
    assert PrecisionSettings.asked(context_of("ascend", "enforce_fp16"), config, "cpu").mode == HALF
    assert (
        "[ascend_context] precision_mode is cube_hif8, which is ignored: expected one of "
        "enforce_fp32"
    ) in caplog.text


def test_node_types_are_read_from_the_execution_plan(caplog: pytest.LogCaptureFixture):
    plan = {
        "a": "data_type:float16",
        "b": '"data_type:float32"',
        "c": "data_type:int8",
        "d": "float16",
        "e": "x:float16",
    }
    precision = PrecisionSettings.asked(Context(), Config({"execution_plan": plan}), "cpu")
    assert precision.nodes == {"a": HALF, "b": FLOAT}
    assert [record.args[1] for record in caplog.records] == ["c", "d", "e"]
    assert (
        "c = data_type:int8 is ignored: expected data_type:float32 or data_type:float16 or "
        "data_type:bfloat16." in caplog.text
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Default/fc/MatMul-op0", HALF),
        ("Default/*", HALF),
        ("*MatMul*", HALF),
        ("Default/fc/BiasAdd-op0", HALF),
        ("Default/fc/MatMul", None),
        ("MatMul-op0", None),
        ("Default/fc/MatMul-op0_2", HALF),
        (".*", None),
    ],
)
def test_names_of_nodes(asked: str, expected: int | None):
    """An ONNX node's own name may carry our number; one that is two nodes of the file answers to
    both names.
    """
    node = helper.make_node(
        "Gemm", ["a"], ["b"], name="Default/fc/MatMul-op0_2", doc_string="Default/fc/BiasAdd-op0"
    )
    assert Precision(nodes={asked: HALF}).node_type(node) == expected


def test_an_exact_name_counts_more_than_a_pattern():
    precision = Precision(nodes={"Default/*": HALF, "Default/b": FLOAT})
    assert [
        precision.node_type(helper.make_node("Add", [], [], name=n))
        for n in ("Default/a", "Default/b", "c")
    ] == [HALF, FLOAT, None]


def error_of(got: np.ndarray, reference: np.ndarray) -> float:
    return float(np.abs(got - reference).max() / np.abs(reference).max())


def results(model: Model, name: str) -> list[np.ndarray]:
    return [output.get_data_to_numpy() for output in model.predict(saved(name)[0])]


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "lenet5",
        "bert_encoder",
        "gpt2",
        "llama",
        "lstm_cell",
        "dyn_conv",
        "mobilenetv2",
        "sd_unet",
    ],
)
def test_preferred_fp16_is_as_close_as_float16_can_be(name: str):
    """Errors against MindSpore, of the largest element: float16 has 11 bits, and 3e-3 was the most
    of all networks.
    """
    model = Model()
    model.build_from_file(file_of(name), ModelType.MINDIR, context_of("cpu", "preferred_fp16"))
    for got, reference in zip(results(model, name), saved(name)[1], strict=True):
        assert got.dtype == reference.dtype
        if got.dtype == np.float32:
            assert 2e-5 < error_of(got, reference) < 5e-3


def test_preferred_fp16_computes_what_numpy_computes_in_float16():
    """matmul_bias: x @ w + b, each rounded to float16; products are summed in float32."""
    (x,), _ = saved("matmul_bias")
    exact, half = built("matmul_bias"), Model()
    half.build_from_file(
        file_of("matmul_bias"), ModelType.MINDIR, context_of("cpu", "preferred_fp16")
    )
    got = half.predict([x])[0].get_data_to_numpy()
    rounded = exact.predict([x.astype(np.float16).astype(np.float32)])[0].get_data_to_numpy()
    np.testing.assert_array_equal(got, got.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(got, rounded, rtol=0, atol=2e-3 * np.abs(rounded).max())


@pytest.mark.parametrize(("mode", "most"), [("preferred_fp16", 5e-3), ("preferred_bf16", 4e-2)])
def test_torch_computes_in_halves(mode: str, most: float, monkeypatch: pytest.MonkeyPatch):
    """torch has kernels of both on a CPU; bfloat16 has 8 bits, float16 has 11."""
    pytest.importorskip("torch")
    monkeypatch.setenv("RANKMESH_EXECUTOR", "torch")
    for name in ("mlp", "bert_encoder"):
        model = Model()
        model.build_from_file(file_of(name), ModelType.MINDIR, context_of("cpu", mode))
        got, reference = results(model, name)[0], saved(name)[1][0]
        assert got.dtype == reference.dtype == np.float32
        assert most / 200 < error_of(got, reference) < most


def test_preferred_bf16_rounds_between_onnxruntimes_kernels():
    model = Model()
    model.build_from_file(file_of("mlp"), ModelType.MINDIR, context_of("cpu", "preferred_bf16"))
    assert 2e-4 < error_of(results(model, "mlp")[0], saved("mlp")[1][0]) < 4e-2


def test_a_float16_network_computes_in_float32_on_a_cpu():
    """The result is the network's in float64, rounded once to float16; MindSpore's, in float16, is
    further away.
    """
    (x,), (reference,) = saved("fp16_mlp")
    weights = {
        weight.name: weight.array().astype(np.float16).astype(np.float64)
        for weight in read_model(file_of("fp16_mlp")).weights.values()
    }
    h = x.astype(np.float64) @ weights["fc1.weight"].T + weights["fc1.bias"]
    h = np.maximum(h, 0) @ weights["fc2.weight"].T + weights["fc2.bias"]
    h = (
        h / 2 * (1 + np.vectorize(math.erf)(h / math.sqrt(2))) @ weights["fc3.weight"].T
        + weights["fc3.bias"]
    )
    exact = np.exp(h) / np.exp(h).sum(-1, keepdims=True)
    got = results(built("fp16_mlp"), "fp16_mlp")[0]
    assert got.dtype == reference.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=2**-11, atol=0)
    assert np.abs(got - exact).max() < np.abs(reference - exact).max()
    same(got, reference)


@pytest.mark.parametrize("how", ["dict", "ini"])
def test_execution_plans_change_single_nodes(how: str, tmp_path: Path):
    plan = {"Default/fc1-Dense/MatMul-op0": "data_type:float16"}
    ini = tmp_path / "plan.ini"
    ini.write_text("[execution_plan]\nDefault/fc1-Dense/MatMul-op0=data_type:float16\n")
    asked = (
        {"config_dict": {"execution_plan": plan}} if how == "dict" else {"config_path": str(ini)}
    )
    reference = saved("mlp")[1][0]
    one = error_of(results(built("mlp", **asked), "mlp")[0], reference)
    none = error_of(results(built("mlp"), "mlp")[0], reference)
    assert none < 1e-6 < 5e-5 < one < 1e-3


def test_a_node_may_stay_float32_where_float16_is_preferred():
    model = Model()
    model.build_from_file(
        file_of("mlp"),
        ModelType.MINDIR,
        context_of("cpu", "preferred_fp16"),
        config_dict={"execution_plan": {"*": "data_type:float32"}},
    )
    assert error_of(results(model, "mlp")[0], saved("mlp")[1][0]) < 1e-6


def test_a_name_that_no_node_has_is_named(caplog: pytest.LogCaptureFixture):
    built("mlp", config_dict={"execution_plan": {"Default/fc1-Dense/MatMul": "data_type:float16"}})
    assert "[execution_plan] Default/fc1-Dense/MatMul: no node of " in caplog.text
    assert "it is ignored; the nearest is Default/fc1-Dense/MatMul-op0." in caplog.text


def test_that_float16_is_slower_on_a_cpu_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(precise, "_warned", set())
    caplog.set_level(logging.WARNING, "rankmesh")
    for _ in range(2):
        Model().build_from_file(
            file_of("mlp"), ModelType.MINDIR, context_of("cpu", "preferred_fp16")
        )
    assert caplog.text.count("float16 was asked for on a CPU") == 1


def test_a_resized_model_keeps_its_precision():
    (x,), (reference,) = saved("mlp")
    model = Model()
    model.build_from_file(file_of("mlp"), ModelType.MINDIR, context_of("cpu", "preferred_fp16"))
    model.resize(model.get_inputs(), [[2, 16]])
    got = model.predict([x[:2]])[0].get_data_to_numpy()
    assert 2e-5 < error_of(got, reference[:2]) < 5e-3


RANK = """
    import sys
    import numpy as np
    import rankmesh as mslite
    context = mslite.Context()
    context.cpu.precision_mode = "preferred_fp16"
    model = mslite.Model()
    model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
    with np.load(sys.argv[2]) as saved:
        inputs, reference = [saved[f"in_{i}"] for i in range(len(model.get_inputs()))], saved["out_0"]
    got = model.predict(inputs)[0].get_data_to_numpy()
    error = np.abs(got - reference).max() / np.abs(reference).max()
    if got.dtype != np.float32 or not 2e-5 < error < 5e-3:
        sys.exit(f"{got.dtype}, off by {error}")
"""  # noqa: E501


@pytest.mark.parametrize("entry", ["dist_tp_mlp_2", "dist_tp_llama_2"])
def test_ranks_exchange_the_types_of_their_files(entry: str, tmp_path: Path):
    """float16 in the segments, float32 between the ranks, whose files say so."""
    folder = DATA / entry
    done = rankmesh(
        "launch",
        "--ranks",
        "2",
        script(tmp_path, RANK),
        folder / (entry + "_rank{rank}.mindir"),
        folder / f"{entry}.npz",
    )
    assert done.returncode == 0, done.stdout + done.stderr
