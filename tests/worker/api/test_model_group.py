"""Models that share: what the group checks, and that there really is one copy and one workspace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encrypted import KEY, encrypt_file
from mindir_models import built, fails, file_of, saved
from onnx import ModelProto, helper, save
from primitives import Parameter, Writer, same

from rankmesh import Context, Model, ModelGroup, ModelGroupFlag, ModelType

WEIGHT, WORKSPACE = ModelGroupFlag.SHARE_WEIGHT, ModelGroupFlag.SHARE_WORKSPACE
BOTH = ModelGroupFlag.SHARE_WEIGHT_WORKSPACE
MLP, LENET = file_of("mlp"), file_of("lenet5")
ADD = "ModelGroup's add model failed."
CALCULATE = "ModelGroup's cal max size of workspace failed."


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def one_thread() -> Context:
    context = Context()
    context.cpu.thread_num = 1
    return context


def build(model: Model, path: str) -> Model:
    model.build_from_file(path, ModelType.MINDIR, one_thread())
    return model


def check(model: Model, name: str) -> None:
    inputs, references = saved(name)
    for got, reference in zip(model.predict(inputs), references, strict=True):
        same(got.get_data_to_numpy(), reference)


def test_flags() -> None:
    assert [(flag.name, flag.value) for flag in ModelGroupFlag] == [
        ("SHARE_WEIGHT", 1),
        ("SHARE_WORKSPACE", 2),
        ("SHARE_WEIGHT_WORKSPACE", 3),
    ]
    for wrong in (1, "SHARE_WEIGHT", None):
        fails(
            RuntimeError,
            "Parameter flags should be ModelGroupFlag.SHARE_WORKSPACE or",
            ModelGroup,
            wrong,
        )
    fails(RuntimeError, ADD, ModelGroup().add_model, [Model()])  # the default shares a workspace


@pytest.mark.parametrize(
    ("models", "error", "text"),
    [
        ("path", TypeError, "models must be list/tuple, but got"),
        ({MLP}, TypeError, "models must be list/tuple, but got"),
        ([], RuntimeError, "models cannot be empty"),
        ((), RuntimeError, "models cannot be empty"),
        ([1], TypeError, "models element must be all str or Model"),
        ([MLP, Model()], TypeError, "models element must be all str or Model"),
        ([Model(), 1], TypeError, "models element must be all str or Model"),
        (["model0_path", "model1_path"], RuntimeError, ADD),
    ],
)
@pytest.mark.parametrize("flag", [WEIGHT, BOTH])
def test_what_can_be_added(
    flag: ModelGroupFlag, models: Any, error: type[Exception], text: str
) -> None:
    fails(error, text, ModelGroup(flag).add_model, models)


@pytest.mark.parametrize("flag", [WORKSPACE, BOTH])
def test_objects_share_weights_only(flag: ModelGroupFlag) -> None:
    fails(RuntimeError, ADD, ModelGroup(flag).add_model, [Model(), Model()])


def test_a_model_is_in_one_group_and_not_built_before() -> None:
    model, group = Model(), ModelGroup(WEIGHT)
    group.add_model((model,))
    fails(
        RuntimeError,
        f"{ADD} A model is in a group already",
        ModelGroup(WEIGHT).add_model,
        [Model(), model],
    )
    fails(RuntimeError, ADD, group.add_model, [model])
    fails(
        RuntimeError, f"{ADD} A model was built from {MLP} already", group.add_model, [built("mlp")]
    )


@pytest.mark.parametrize(
    ("model_type", "context", "error", "text"),
    [
        (ModelType.MINDIR, 1, TypeError, "context must be Context"),
        (1, 1, TypeError, "context must be Context"),
        (1, Context(), TypeError, "model_type must be ModelType"),
        (ModelType.MINDIR, Context(), RuntimeError, CALCULATE),  # nothing was added
    ],
)
def test_the_workspace_checks_its_arguments(
    model_type: Any, context: Any, error: type[Exception], text: str
) -> None:
    fails(error, text, ModelGroup().cal_max_size_of_workspace, model_type, context)


def test_the_workspace_comes_before_the_builds_and_not_with_ge() -> None:
    group, context = ModelGroup(), Context()
    group.add_model([MLP, LENET])
    context.ascend.provider = "ge"
    fails(RuntimeError, CALCULATE, group.cal_max_size_of_workspace, ModelType.MINDIR, context)
    group.cal_max_size_of_workspace(ModelType.MINDIR, Context())
    build(Model(), MLP)
    fails(
        RuntimeError,
        f"{CALCULATE} {MLP} was built already",
        group.cal_max_size_of_workspace,
        ModelType.MINDIR,
        Context(),
    )


def test_models_of_a_group_compute_what_they_compute_alone() -> None:
    """Flow A, with objects; other models, and other shapes of one, too."""
    names = ["mlp", "lenet5", "mobilenetv2", "mlp", "shared_weights", "cf_while"]
    models, group = [Model() for _ in names], ModelGroup(WEIGHT)
    group.add_model(models)
    for model, name in zip(models, names, strict=True):
        build(model, file_of(name))
    for _ in range(2):
        for model, name in zip(models, names, strict=True):
            check(model, name)
    models[0].resize(models[0].get_inputs(), [[2, 16]])
    (x,), (y,) = saved("mlp")
    same(models[0].predict([x[:2]])[0].get_data_to_numpy(), y[:2])
    check(models[3], "mlp")


@pytest.mark.parametrize("flag", list(ModelGroupFlag))
def test_paths_of_a_group(flag: ModelGroupFlag) -> None:
    """Flow B."""
    group = ModelGroup(flag)
    group.add_model([MLP, LENET])
    group.cal_max_size_of_workspace(ModelType.MINDIR, one_thread())
    models = {name: build(Model(), file_of(name)) for name in ("mlp", "lenet5", "mobilenetv2")}
    for _ in range(2):
        for name, model in models.items():
            check(model, name)


def test_equal_weights_are_written_once_and_go_with_the_group(cache_home: Path) -> None:
    group, models = ModelGroup(WEIGHT), [Model(), Model()]
    group.add_model(models)
    build(models[0], file_of("mobilenetv2"))
    (folder,) = (cache_home / "rankmesh" / "groups").iterdir()
    before = {path.name for path in folder.iterdir()}
    assert any(name.endswith(".weights") for name in before)
    build(models[1], file_of("mobilenetv2"))
    assert {path.name for path in folder.iterdir()} - before == {
        "2.onnx"
    }  # the second has no weights of its own
    assert folder.stat().st_mode & 0o777 == 0o700
    del group
    check(models[1], "mobilenetv2")
    models.clear()
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed(cache_home: Path) -> None:
    left = cache_home / "rankmesh" / "groups" / "left"
    left.mkdir(parents=True)
    (left / "1.onnx.weights").write_bytes(b"x")
    group, model = ModelGroup(WEIGHT), Model()
    group.add_model([model])
    build(model, MLP)
    assert not left.exists()
    check(model, "mlp")


def test_where_nothing_can_be_written_models_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    group, model = ModelGroup(WEIGHT), Model()
    group.add_model([model])
    build(model, MLP)
    check(model, "mlp")
    assert "shares no weights with the models of its group" in caplog.text


def test_an_encrypted_model_is_never_written(cache_home: Path) -> None:
    group, models = ModelGroup(WEIGHT), [Model(), Model()]
    group.add_model(models)
    models[0].build_from_file(file_of("enc_gcm16"), ModelType.MINDIR, one_thread(), dec_key=KEY)
    build(models[1], MLP)
    check(models[0], "enc_gcm16")
    check(models[1], "mlp")
    assert not list(cache_home.rglob("*.onnx*"))


MEASURED = """
import gc, json, sys
import numpy as np
from rankmesh import Context, Model, ModelGroup, ModelGroupFlag, ModelType

def pss():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

context = Context()
context.cpu.thread_num = 1

def build(path, **arguments):
    model = Model()
    model.build_from_file(path, ModelType.MINDIR, context, **arguments)
    return model

def run(model):
    model.predict([np.ones(tensor.shape, np.float32) for tensor in model.get_inputs()])

flag, config, key, small, *paths = sys.argv[1:]
key = bytes.fromhex(key) or None
kept = build(small)
run(kept)
before = pss()
if flag:
    group = ModelGroup(ModelGroupFlag[flag])
    group.add_model(paths)
models = [build(path, config_dict=json.loads(config) if path == paths[0] else None, dec_key=key) for path in paths]
for _ in range(2):
    for model in models:
        run(model)
print(pss() - before)
"""  # noqa: E501


def megabytes(
    flag: ModelGroupFlag | None,
    paths: Sequence[Path],
    config: dict[str, Any] | None = None,
    key: bytes = b"",
) -> float:
    """What the models of `paths` add to a process of their own that has run a small model; the
    first has `config`.
    """
    command = [
        sys.executable,
        "-c",
        MEASURED,
        flag.name if flag else "",
        json.dumps(config),
        key.hex(),
        MLP,
        *map(str, paths),
    ]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=250).stdout)


def products(path: Path, rows: int, count: int = 8) -> Path:
    """A MindIR of `count` products of [rows, 1024] with weights of 4 MiB, always the same."""
    writer, x = Writer(), np.ones((rows, 1024), np.float32)
    key = writer.argument(x)
    for seed in range(count):
        weight = np.random.default_rng(seed).standard_normal((1024, 1024), dtype=np.float32) / 32
        key = writer.node(
            "MatMul", [key, Parameter(weight)], x, {"transpose_a": False, "transpose_b": False}
        )
    return writer.save(path, key, x)


def test_equal_weights_are_in_memory_once(tmp_path: Path) -> None:
    """Two models with the same 32 MiB of weights, for 1 row and for 16: alone, 64 MiB or more; in a
    group, 32.
    """
    paths = [products(tmp_path / "one.mindir", 1), products(tmp_path / "many.mindir", 16)]
    alone, group = megabytes(None, paths), megabytes(WEIGHT, paths)
    assert alone > 56
    assert group < 32 + 12, f"{group:.1f} MiB, where {alone:.1f} MiB without a group"


@pytest.mark.parametrize(
    ("why", "flag"), [("shared", WEIGHT), ("updatable", BOTH), ("encrypted", WEIGHT)]
)
def test_equal_live_weights_are_in_memory_once(
    tmp_path: Path, why: str, flag: ModelGroupFlag
) -> None:
    """The same, where weights lie in memory of the process."""
    paths = [products(tmp_path / "one.mindir", 1), products(tmp_path / "many.mindir", 16)]
    config, key = None, b""
    if why == "updatable":
        (tmp_path / "names.txt").write_text("p3,p3")
        config = {"ascend_context": {"variable_weights_file": str(tmp_path / "names.txt")}}
    elif why == "shared":
        config = {"pids": "0"}
    else:
        key, paths = (
            KEY,
            [encrypt_file(path, tmp_path / f"encrypted_{path.name}") for path in paths],
        )
    group = megabytes(flag, paths, config, key)
    assert group < 32 + 16, f"{group:.1f} MiB"


def waves(path: Path, rows: int) -> Path:
    """An ONNX model without weights that needs two buffers of [rows, 1024] on its way to one
    number.
    """
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("Sin", ["wide"], ["sine"]),
        helper.make_node("Cos", ["sine"], ["cosine"]),
        helper.make_node("Sin", ["cosine"], ["again"]),
        helper.make_node("ReduceMean", ["again"], ["y"], keepdims=0),
    ]
    shape = helper.make_tensor("shape", 7, [2], [rows, 1024])
    graph = helper.make_graph(
        nodes,
        "waves",
        [helper.make_tensor_value_info("x", 1, [1, 1])],
        [helper.make_tensor_value_info("y", 1, [])],
        [shape],
    )
    model: ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    save(model, path)
    return path


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], float, float]:
    """Three models that need 64, 128 and 96 MiB or more; what the largest takes alone, and what all
    take apart.
    """
    folder = tmp_path_factory.mktemp("waves")
    paths = [waves(folder / f"{rows}.onnx", rows) for rows in (8192, 16384, 12288)]
    return paths, megabytes(None, paths[1:2]), megabytes(None, paths)


@pytest.mark.parametrize(
    ("flag", "config"), [(WORKSPACE, None), (BOTH, None), (BOTH, {"pids": "0"})]
)
def test_activations_are_in_memory_once(
    apart: tuple[list[Path], float, float], flag: ModelGroupFlag, config: dict[str, Any] | None
) -> None:
    """In a group, they take no more than the largest; with live weights too."""
    paths, largest, alone = apart
    group = megabytes(flag, paths, config)
    assert alone > 1.5 * largest
    assert group < largest + 24, (
        f"{group:.0f} MiB; the largest model alone {largest:.0f}, all apart {alone:.0f}"
    )


def test_a_workspace_of_small_models_is_small(tmp_path: Path) -> None:
    """Two models that need 4 MiB or more."""
    group = megabytes(WORKSPACE, [waves(tmp_path / f"{rows}.onnx", rows) for rows in (512, 1024)])
    assert group < 40, f"{group:.0f} MiB"


def test_models_with_one_workspace_run_one_after_the_other() -> None:
    from concurrent.futures import ThreadPoolExecutor

    group = ModelGroup()
    group.add_model([MLP, LENET])
    models = {name: build(Model(), file_of(name)) for name in ("mlp", "lenet5")}
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(lambda i: check(models[name := ["mlp", "lenet5"][i % 2]], name), range(40))
        )
