"""The shapes that configurations declare: the grammar, what belongs together, what takes effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindir_models import DATA, fails, file_of, saved
from primitives import same

from rankmesh import Context, Model, ModelParallelRunner, ModelType, Tensor
from rankmesh.comm.errors import InputError, UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.runner.programs import RunnerPrograms
from rankmesh.worker.session.dynamic_shapes import DynamicShapes


def declared(target: str, **keys: str) -> DynamicShapes | None:
    return DynamicShapes.of(target, Config({f"{target}_context": keys}))


@pytest.mark.parametrize(
    ("keys", "shapes", "profiles"),
    [
        ({"input_shape": "x:[1,3,224,224]"}, {"x": (1, 3, 224, 224)}, {"x": []}),
        ({"input_shape": '"x:[2,3];y:[4]"'}, {"x": (2, 3), "y": (4,)}, {"x": [], "y": []}),
        ({"input_shape": "a:b:[2]"}, {"a:b": (2,)}, {"a:b": []}),
        (
            {
                "input_shape": "x:[-1,3]",
                "dynamic_dims": "[1~4],[8],[16]",
                "opt_dims": "[1],[8],[16]",
            },
            {"x": (-1, 3)},
            {"x": [((1, 4),), ((8, 8),), ((16, 16),)]},
        ),
        (
            {
                "input_shape": " x : [ -1, 3, -1 ] ; y:[-1]",
                "dynamic_dims": "[1~4, 2], [8,3~3] ; [5],[6]",
                "opt_dims": "[1,2],[8,3];[5],[6]",
            },
            {"x": (-1, 3, -1), "y": (-1,)},
            {"x": [((1, 4), (2, 2)), ((8, 8), (3, 3))], "y": [((5, 5),), ((6, 6),)]},
        ),
        (
            {
                "input_shape": "x:[-1];y:[3];z:[-1]",
                "dynamic_dims": "[1];[2]",
                "opt_dims": "[1];[2]",
            },
            {"x": (-1,), "y": (3,), "z": (-1,)},
            {"x": [((1, 1),)], "y": [], "z": [((2, 2),)]},
        ),
    ],
)
def test_grammar(keys: dict[str, str], shapes: dict[str, Any], profiles: dict[str, Any]):
    found = declared("gpu", **keys)
    assert found is not None and (found.shapes, found.profiles) == (shapes, profiles)


def test_brackets_may_be_left_out_for_ascend_alone():
    found = declared("ascend", input_shape="x:-1,3", dynamic_dims="[1~4],[8]")
    assert found is not None and found.shapes == {"x": (-1, 3)}
    fails(
        UsageError,
        "[gpu_context] input_shape = x:1,3: expected name1:[-1,3,224,224]",
        declared,
        "gpu",
        input_shape="x:1,3",
    )


def test_where_nothing_is_declared():
    assert declared("gpu") is declared("ascend") is None
    assert declared("gpu", input_shape="") is None
    assert declared("cpu", input_shape="nonsense", dynamic_dims="more") is None


@pytest.mark.parametrize(
    ("target", "keys", "text"),
    [
        ("gpu", {"input_shape": "x"}, "expected name1:[-1,3,224,224];name2:[1,16], each name once"),
        ("gpu", {"input_shape": ":[1]"}, "expected name1:"),
        ("gpu", {"input_shape": "x:[1];x:[2]"}, "each name once"),
        ("gpu", {"input_shape": "x:[0]"}, "expected dimensions above 0, or -1 for any, not '0'"),
        ("gpu", {"input_shape": "x:[-2]"}, "not '-2'"),
        ("gpu", {"input_shape": "x:[]"}, "not ''"),
        ("gpu", {"input_shape": "x:[1.5]"}, "not '1.5'"),
        ("gpu", {"dynamic_dims": "[1]"}, "has dynamic_dims or opt_dims without input_shape"),
        (
            "gpu",
            {"input_shape": "x:[-1]"},
            "leaves dimensions of ['x'] open (-1), and there is no dynamic_dims",
        ),
        (
            "ascend",
            {"input_shape": "x:[-1]"},
            "[ascend_context] input_shape leaves dimensions of ['x'] open",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "1"},
            "expected profiles such as [1~4],[8],[16]",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "[0]"},
            "ranges min~max from 1 up, not '0'",
        ),
        ("gpu", {"input_shape": "x:[-1]", "dynamic_dims": "[4~1]"}, "not '4~1'"),
        ("gpu", {"input_shape": "x:[-1]", "dynamic_dims": "[a]"}, "not 'a'"),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "[1,2]"},
            "expected 1 entries in each profile",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1];y:[-1]", "dynamic_dims": "[1]"},
            "expected one part per input of ['x', 'y']",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1];y:[-1]", "dynamic_dims": "[1],[2];[1]"},
            "the inputs have [2, 1] profiles, expected as many for each",
        ),
        ("gpu", {"input_shape": "x:[-1]", "dynamic_dims": "[1~4]"}, "there is no opt_dims"),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "[1~4]", "opt_dims": "[5]"},
            "expected one number from 1 to 4",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "[1~4]", "opt_dims": "[1~2]"},
            "expected one number from 1 to 4",
        ),
        (
            "gpu",
            {"input_shape": "x:[-1]", "dynamic_dims": "[1],[2]", "opt_dims": "[1]"},
            "has 1 profiles for 'x', and",
        ),
        (
            "ascend",
            {"input_shape": "x:[-1,2]", "dynamic_dims": "[2049]"},
            "first dimension of 'x' may be at most 2048",
        ),
        (
            "ascend",
            {"input_shape": "x:[2,-1]", "dynamic_dims": "[1~101]"},
            "'x' has 101 shapes, expected at most 100",
        ),
    ],
)
def test_faults(target: str, keys: dict[str, str], text: str):
    fails(UsageError, text, declared, target, **keys)


@given(st.text("[]~,;:-0123 xy", max_size=30), st.text("[]~,;:-0123", max_size=20))
def test_any_text_is_read_or_refused(shape: str, dims: str):
    for target in ("gpu", "ascend"):
        try:
            declared(target, input_shape=shape, dynamic_dims=dims, opt_dims=dims)
        except UsageError:
            continue


def test_a_shape_must_be_in_one_profile_for_all_inputs():
    found = declared(
        "gpu",
        input_shape="x:[-1,3];y:[-1]",
        dynamic_dims="[1~4],[8];[1],[2~3]",
        opt_dims="[1],[8];[1],[2]",
    )
    assert found is not None
    for x, y in ((1, 1), (4, 1), (8, 3)):
        found.check({"x": (x, 3), "y": (y,)})
    for shapes in (
        {"x": (8, 3), "y": (1,)},
        {"x": (5, 3), "y": (1,)},
        {"x": (1, 4), "y": (1,)},
        {"x": (1, 3, 1), "y": (1,)},
    ):
        fails(InputError, "are in none of the profiles of [gpu_context]", found.check, shapes)
    fixed = declared("ascend", input_shape="x:[2,3]")
    assert fixed is not None
    fixed.check({"x": (2, 3)})
    fails(InputError, "are in none of the profiles", fixed.check, {"x": (1, 3)})


def built(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch, section: str = "", **keys: str
) -> Model:
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [target], 1
    path = file_of(name) if (DATA / name).exists() else name
    model.build_from_file(
        path, ModelType.MINDIR, context, config_dict={section or f"{target.lower()}_context": keys}
    )
    return model


@pytest.mark.parametrize("target", ["gpu", "Ascend"])
def test_a_declared_shape_is_the_inputs_shape(target: str, monkeypatch: pytest.MonkeyPatch):
    model = built("dyn_mlp", target, monkeypatch, input_shape="x:[3,16]")
    assert model.get_inputs()[0].shape == [3, 16]
    assert model.get_model_info("input_shape") == "x:[3,16]"
    assert model.predict([np.ones(48, np.float32)])[0].shape[0] == 3
    model = built("mlp", target, monkeypatch, input_shape="x:[2,16]")
    (x,), (reference,) = saved("mlp")
    assert model.get_inputs()[0].shape == [2, 16]
    same(model.predict([x[:2]])[0].get_data_to_numpy(), reference[:2])


def test_open_dimensions_stay_open(monkeypatch: pytest.MonkeyPatch):
    model = built(
        "dyn_mlp", "gpu", monkeypatch, input_shape="x:[-1,16]", dynamic_dims="[1~4]", opt_dims="[2]"
    )
    assert model.get_inputs()[0].shape == [-1, 16]
    for rows in (1, 4, 9):  # on the CPU that took the GPU's place no profile restricts anything
        assert model.predict([np.ones((rows, 16), np.float32)])[0].shape[0] == rows


def test_on_the_device_itself_the_profiles_restrict(monkeypatch: pytest.MonkeyPatch):
    """As if the device were there: what runs is the CPU all the same."""
    monkeypatch.setattr("rankmesh.worker.session.engine.device_of_targets", lambda targets: "gpu")
    monkeypatch.setattr(
        "rankmesh.worker.runtime.opening.open_executor", lambda settings: OnnxRuntime()
    )
    model = built(
        "dyn_mlp",
        "gpu",
        monkeypatch,
        input_shape="x:[-1,16]",
        dynamic_dims="[1~4],[8]",
        opt_dims="[2],[8]",
    )
    for rows in (4, 8):
        assert model.predict([np.ones((rows, 16), np.float32)])[0].shape[0] == rows
    fails(
        RuntimeError,
        "predict failed! Error is the shapes {'x': [5, 16]} are in none of the profiles",
        model.predict,
        [np.ones((5, 16), np.float32)],
    )
    fails(
        RuntimeError,
        "resize failed! Error is the shapes {'x': [5, 16]} are in none",
        model.resize,
        model.get_inputs(),
        [[5, 16]],
    )
    model.resize(model.get_inputs(), [[8, 16]])


def test_a_cpu_ignores_them_all(monkeypatch: pytest.MonkeyPatch):
    for section in ("gpu_context", "ascend_context", "cpu_context"):
        model = built(
            "dyn_mlp", "cpu", monkeypatch, section, input_shape="y:nonsense", dynamic_dims="[["
        )
        assert model.get_inputs()[0].shape == [-1, 16]


def runner(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch, **keys: str
) -> ModelParallelRunner:
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    context, made = Context(), ModelParallelRunner()
    context.target, context.cpu.thread_num, context.parallel.workers_num = [target], 1, 2
    context.parallel.config_info = {f"{target}_context": keys}
    made.build_from_file(file_of(name), context)
    return made


def test_a_runners_inputs_have_declared_shapes(monkeypatch: pytest.MonkeyPatch):
    (x,), (reference,) = saved("mlp")
    made = runner("mlp", "ascend", monkeypatch, input_shape="x:[2,16]")
    (tensor,) = made.get_inputs()
    assert tensor.shape == [2, 16]
    tensor.set_data_from_numpy(x[:2].reshape(-1))
    same(made.predict([tensor])[0].get_data_to_numpy(), reference[:2])
    same(made.predict([Tensor(x[:2].reshape(-1))])[0].get_data_to_numpy(), reference[:2])
    same(
        made.predict([Tensor(x)])[0].get_data_to_numpy(), reference
    )  # on a CPU nothing is restricted
    made = runner(
        "dyn_mlp", "gpu", monkeypatch, input_shape="x:[-1,16]", dynamic_dims="[1~4]", opt_dims="[2]"
    )
    assert made.get_inputs()[0].shape == [-1, 16]
    assert made.predict([Tensor(np.ones((9, 16), np.float32))])[0].shape[0] == 9


def test_on_the_device_itself_the_profiles_restrict_a_runner(monkeypatch: pytest.MonkeyPatch):
    real = RunnerPrograms.declare
    monkeypatch.setattr(
        RunnerPrograms,
        "declare",
        lambda programs, declared, restricts: real(programs, declared, True),
    )
    made = runner(
        "dyn_mlp", "gpu", monkeypatch, input_shape="x:[-1,16]", dynamic_dims="[1~4]", opt_dims="[2]"
    )
    assert made.predict([Tensor(np.ones((4, 16), np.float32))])[0].shape[0] == 4
    fails(
        RuntimeError,
        "predict failed! Error is the shapes {'x': [5, 16]} are in none of the profiles",
        made.predict,
        [Tensor(np.ones((5, 16), np.float32))],
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {"input_shape": "x:[0]"},
            "build from file failed! Error is [gpu_context] input_shape = x:[0]: expected dim",
        ),
        (
            {"input_shape": "y:[3,16]"},
            "[gpu_context] input_shape names ['y'], and the model's inputs are ['x']",
        ),
        (
            {"input_shape": "x:[-1,17]", "dynamic_dims": "[1]", "opt_dims": "[1]"},
            "changes fixed dimensions of the model",
        ),
        ({"input_shape": "x:[-1,16]"}, "there is no dynamic_dims"),
        ({"input_shape": "x:[3,17]"}, "build from file failed! Error is "),
    ],
)
def test_faults_end_a_runners_build(
    keys: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch
):
    fails(RuntimeError, text, runner, "dyn_mlp", "gpu", monkeypatch, **keys)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {"input_shape": "x:[0]"},
            "build_from_file failed! Error is [gpu_context] input_shape = x:[0]: expected dim",
        ),
        (
            {"input_shape": "y:[3,16]"},
            "[gpu_context] input_shape names ['y'], and the model's inputs are ['x']",
        ),
        (
            {"input_shape": "x:[3,16];y:[1]"},
            "input_shape names ['x', 'y'], and the model's inputs are ['x']",
        ),
        (
            {"input_shape": "x:[3,16,1]"},
            "input_shape gives 'x' the shape [3, 16, 1], and the model has [-1, 16]",
        ),
        ({"input_shape": "x:[3,17]"}, "build_from_file failed! Error is "),
    ],
)
def test_faults_end_the_build(keys: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch):
    fails(RuntimeError, text, built, "dyn_mlp", "gpu", monkeypatch, **keys)
