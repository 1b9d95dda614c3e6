"""Updates of a model's weights: what is computed afterwards, to which names they go, and what
stays.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_weights import other, weights, with_weights
from mindir_models import DATA, built, fails, file_of, saved
from onnx import save
from onnx_models import model, node

from rankmesh import Context, InputError, Model, ModelType, Tensor, UsageError
from rankmesh.worker.api.model import weight_owner

_MODELS = sorted(
    path.name
    for path in DATA.iterdir()
    if not path.name.startswith(("enc_", "dist_"))
    and any(path.glob("*.mindir"))
    and (path / f"{path.name}.npz").exists()
)
# Sums in another order: live sessions neither fold BatchNormalization into Conv nor repack kernels.
_RTOL, _ATOL = 2e-3, 2e-4


def opened(path: str, **config: str) -> Model:
    context, made = Context(), Model()
    context.cpu.thread_num = 1
    made.build_from_file(
        path, ModelType.MINDIR, context, config_dict={"ascend_context": config} if config else None
    )
    return made


def results(made: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [output.get_data_to_numpy().astype(np.float64) for output in made.predict(inputs)]


def tensor(name: str, array: np.ndarray) -> Tensor:
    made = Tensor(array)
    made.name = name
    return made


def version(made: Model) -> str:
    return made.get_model_info("weights_version")


@pytest.mark.parametrize("name", _MODELS)
def test_every_weight_of_every_model(name: str, tmp_path: Path) -> None:
    """All float weights replaced at once compute what a file with these weights computes, folded
    ones too.
    """
    inputs, _ = saved(name)
    made = opened(file_of(name))
    owner = weight_owner(made)
    new = {
        key: array for key, array in other(weights(file_of(name))).items() if owner.names.known(key)
    }
    if not new:
        pytest.skip("the model has no weights of floats")
    owner.update(new, delta=False)
    expected = results(opened(with_weights(file_of(name), new, tmp_path)), inputs)
    for got, want in zip(results(made, inputs), expected, strict=True):
        np.testing.assert_allclose(
            got, want, _RTOL, _ATOL * max(1.0, float(np.abs(want).max(initial=0)))
        )


@pytest.fixture
def mlp() -> Model:
    return built("mlp")


def mlp_weights() -> dict[str, np.ndarray]:
    return weights(file_of("mlp"))


def test_versions_forward_and_back(mlp: Model) -> None:
    inputs, _ = saved("mlp")
    assert version(mlp) == "0"
    found = [results(mlp, inputs)[0]]
    name, array = next(iter(mlp_weights().items()))
    for factor in (2, 3, 4):
        mlp.update_weights([[tensor(name, array * np.float32(factor))]])
        found.append(results(mlp, inputs)[0])
        assert version(mlp) == str(factor - 1)
    assert all((a != b).any() for a, b in zip(found, found[1:], strict=False))
    mlp.rollback()
    assert version(mlp) == "2"
    np.testing.assert_array_equal(results(mlp, inputs)[0], found[2])
    fails(
        UsageError,
        "rollback failed! Error is there is no version of the weights to go back to",
        mlp.rollback,
    )
    mlp.update_weights([[tensor(name, array)]])
    np.testing.assert_array_equal(results(mlp, inputs)[0], found[0])
    assert version(mlp) == "3"


def test_going_back_keeps_what_other_updates_changed(mlp: Model) -> None:
    inputs, _ = saved("mlp")
    (first, a), (second, b), *_ = mlp_weights().items()
    mlp.update_weights([[tensor(first, a * np.float32(2))]])
    after_first = results(mlp, inputs)[0]
    mlp.update_weights([[tensor(second, b * np.float32(2))]])
    mlp.rollback()
    np.testing.assert_array_equal(results(mlp, inputs)[0], after_first)


@pytest.mark.parametrize("name", ["bf16_params", "fp16_mlp", "lstm"])
def test_going_back_to_folded_weights(name: str) -> None:
    inputs, _ = saved(name)
    made = built(name)
    before = results(made, inputs)
    new = [tensor(key, array) for key, array in other(weights(file_of(name))).items()]
    made.update_weights([new])
    assert any((a != b).any() for a, b in zip(before, results(made, inputs), strict=True))
    made.rollback()
    for a, b in zip(before, results(made, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_deltas_are_added_to_the_exported_weights(tmp_path: Path) -> None:
    inputs, _ = saved("mlp")
    name, array = next(iter(mlp_weights().items()))
    made = opened(file_of("mlp"), variable_weights_mode="delta")
    delta = np.full_like(array, 0.25)
    for _ in range(3):  # set, not summed up
        made.update_weights([[tensor(name, delta)]])
    expected = results(
        opened(with_weights(file_of("mlp"), {name: array + delta}, tmp_path)), inputs
    )
    np.testing.assert_allclose(results(made, inputs)[0], expected[0], 1e-5, 1e-6)


def test_a_delta_of_integers_is_refused(tmp_path: Path) -> None:
    proto = model(
        [node("Gather", "table ids", "y")],
        {"ids": (np.int64, [1])},
        {"y": (np.int64, [1, 16])},
        constants={"table": np.zeros((16, 16), np.int64)},
    )
    save(proto, str(tmp_path / "table.onnx"))
    made = opened(str(tmp_path / "table.onnx"), variable_weights_mode="delta")
    fails(
        InputError,
        "'table' is int64, to which no delta can be added",
        made.update_weights,
        [[tensor("table", np.ones((16, 16), np.int64))]],
    )


def test_a_bad_mode_is_refused() -> None:
    fails(
        UsageError,
        "variable_weights_mode is 'sum', expected replace",
        opened,
        file_of("mlp"),
        variable_weights_mode="sum",
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a: a[:1], "has the shape"),
        (lambda a: a.astype(np.float64), "is float32, got float64"),
        (lambda a: a.reshape(1, -1), "has the shape"),
    ],
)
def test_one_bad_tensor_changes_nothing_and_is_named(mlp: Model, change: Any, text: str) -> None:
    inputs, _ = saved("mlp")
    before = results(mlp, inputs)[0]
    (first, a), (second, b), *_ = mlp_weights().items()
    tensors = [tensor(first, a * np.float32(2)), tensor(second, change(b))]
    fails(
        InputError,
        f"update weight failed! Error is the weight '{second}'",
        mlp.update_weights,
        [tensors],
    )
    fails(InputError, text, mlp.update_weights, [tensors])
    assert version(mlp) == "0"
    np.testing.assert_array_equal(results(mlp, inputs)[0], before)


def test_unknown_names_are_refused_with_near_ones(mlp: Model) -> None:
    name, array = next(iter(mlp_weights().items()))
    fails(InputError, f"has no weight '{name}x'", mlp.update_weights, [[tensor(f"{name}x", array)]])
    fails(InputError, f"near: {name}", mlp.update_weights, [[tensor(f"{name}x", array)]])
    assert version(mlp) == "0"


def test_states_are_not_updated() -> None:
    made = built("state_counter")
    state = made._session.plan.states[0].value  # type: ignore[union-attr]
    fails(
        InputError, f"'{state}' of", made.update_weights, [[tensor(state, np.zeros(1, np.float32))]]
    )
    fails(
        InputError,
        "the model itself assigns to it",
        made.update_weights,
        [[tensor(state, np.zeros(1, np.float32))]],
    )


def test_the_types_of_the_argument(mlp: Model) -> None:
    fails(TypeError, "weights must be list, but got", mlp.update_weights, ())
    fails(TypeError, "weight must be list, but got", mlp.update_weights, [()])
    fails(TypeError, "weights element must be Tensor", mlp.update_weights, [[np.zeros(1)]])
    fails(
        RuntimeError,
        "Session is null, please build model first!",
        Model().update_weights,
        [[Tensor(np.zeros(1, np.float32))]],
    )


def names_file(folder: Path, *lines: str) -> str:
    path = folder / "names.txt"
    path.write_text("\n".join(lines))
    return f'"{path}"'


def test_one_listed_weight_takes_a_tensor_without_a_name(tmp_path: Path) -> None:
    inputs, _ = saved("mlp")
    name, array = next((n, a) for n, a in mlp_weights().items() if n.endswith("weight"))
    made = opened(file_of("mlp"), variable_weights_file=names_file(tmp_path, name))
    before = results(made, inputs)[0]
    made.update_weights([[Tensor(array * np.float32(2))]])
    assert (results(made, inputs)[0] != before).any()
    fails(
        InputError,
        "got 2 tensors without a name, and variable_weights_file lists 1 weight",
        made.update_weights,
        [[Tensor(array), Tensor(array)]],
    )


def test_listed_names_may_be_nodes(tmp_path: Path) -> None:
    """Names of a training framework, and a line that gives the node; a wrong one is told when the
    model is built.
    """
    inputs, _ = saved("mlp")
    owner = weight_owner(built("mlp"))
    path = next(iter(owner.names.nodes))
    array = owner.store.variables[owner.names.nodes[path].copy().popitem()[0]].copies[0]
    made = opened(
        file_of("mlp"),
        variable_weights_file=names_file(
            tmp_path, f"unet.{path[1:].replace('/', '.')}.weight", f"anything,{path}"
        ),
    )
    before = results(made, inputs)[0]
    made.update_weights([[tensor("anything", array * np.float32(2))]])
    after = results(made, inputs)[0]
    assert (after != before).any()
    made.update_weights([[tensor(f"{path[1:].replace('/', '.')}.weight", array * np.float32(3))]])
    assert (results(made, inputs)[0] != after).any()
    fails(
        InputError,
        "has no weight 'nowhere.weight', nor a node /nowhere",
        opened,
        file_of("mlp"),
        variable_weights_file=names_file(tmp_path, "nowhere.weight"),
    )


def operators(
    tmp_path: Path, rows: int = 32
) -> tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """An ONNX model of every way in which weights are used; its weights and inputs."""
    random = np.random.default_rng(3)

    def numbers(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    constants = {
        "table": numbers(rows, 16),
        "turned": numbers(24, 16),
        "batch": numbers(2, 24, 24),
        "kernel": numbers(24, 2, 3, 3),
        "scale": numbers(24),
        "shift": numbers(24),
        "mean": numbers(24),
        "var": np.abs(numbers(24)) + 1,
        "half": numbers(24, 24).astype(np.float16),
        "added": numbers(2, 24),
        "factor": np.ones(24, np.float32),
        "to_rows": np.array([2, 1, 24]),
        "to_image": np.array([1, 2, 4, 3]),
    }
    nodes = [
        node("Gather", "table ids", "rows"),
        node("Transpose", "turned", "straight", perm=[1, 0]),
        node("MatMul", "rows straight", "wide"),
        node("Reshape", "wide to_rows", "stack"),
        node("MatMul", "stack batch", "mixed"),
        node("Squeeze", "mixed one", "flat"),
        node("Cast", "half", "whole", to=1),
        node("Gemm", "flat whole added", "dense", transB=1),
        node("Mul", "dense factor", "scaled"),
        node("Slice", "scaled zero twelve one", "part"),
        node("Reshape", "part to_image", "image"),
        node("Conv", "image kernel", "seen", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "seen scale shift mean var", "normal"),
        node("Relu", "normal", "y"),
    ]
    small = {"one": np.array([1]), "zero": np.array([0]), "twelve": np.array([12])}
    proto = model(
        nodes, {"ids": (np.int64, [2])}, {"y": None}, {"y": [1, 24, 4, 3]}, {**constants, **small}
    )
    proto.graph.output[0].CopyFrom(proto.graph.value_info[0])
    save(
        proto,
        str(tmp_path / "operators.onnx"),
        save_as_external_data=True,
        location="operators.bin",
        size_threshold=80,
    )
    floats = {name: array for name, array in constants.items() if array.dtype.kind == "f"}
    return str(tmp_path / "operators.onnx"), floats, {"ids": np.array([1, 5])}


@pytest.mark.parametrize("embedded", [False, True], ids=["external", "embedded"])
def test_each_operators_weight_alone(tmp_path: Path, embedded: bool) -> None:
    """MatMul, Gemm, Conv, Gather, a batch of products; transposed, cast and fused weights: each is
    taken at once.
    """
    import onnx

    path, arrays, inputs = operators(tmp_path)
    if embedded:
        proto = onnx.load(path)
        path = str(tmp_path / "embedded.onnx")
        onnx.save(proto, path)
    made = opened(path)
    given = list(inputs.values())
    made.update_weights([[tensor("table", arrays["table"])]])  # live from here on
    base = results(made, given)[0]
    changed = 0
    for name, array in arrays.items():
        if embedded and array.nbytes < 1024:
            continue
        new = (array * 1.5).astype(array.dtype)
        made.update_weights([[tensor(name, new)]])
        proto = onnx.load(path)
        for record in proto.graph.initializer:
            if record.name == name:
                record.CopyFrom(onnx.numpy_helper.from_array(new, name))
        onnx.save(proto, str(tmp_path / "expected.onnx"))
        got, want = (
            results(made, given)[0],
            results(opened(str(tmp_path / "expected.onnx")), given)[0],
        )
        np.testing.assert_allclose(got, want, 1e-4, 1e-4, err_msg=name)
        assert (got != base).any(), name
        changed += 1
        made.rollback()
        np.testing.assert_array_equal(results(made, given)[0], base)
    assert changed >= 4


def test_a_resize_keeps_the_version(mlp: Model) -> None:
    inputs, _ = saved("mlp")
    name, array = next(iter(mlp_weights().items()))
    mlp.update_weights([[tensor(name, array * np.float32(2))]])
    want = results(mlp, inputs)[0][:1]
    mlp.resize(mlp.get_inputs(), [[1, *inputs[0].shape[1:]]])
    np.testing.assert_allclose(results(mlp, [inputs[0][:1]])[0], want, 1e-5)
    mlp.update_weights([[tensor(name, array * np.float32(3))]])
    assert (results(mlp, [inputs[0][:1]])[0] != want).any()
    assert version(mlp) == "2"


def test_a_predict_sees_all_of_an_update_or_none(tmp_path: Path) -> None:
    """Four weights that always hold the same number, updated as fast as can be while another thread
    predicts.
    """
    names = [f"w{i}" for i in range(4)]
    shape = (64, 64)
    nodes = [node("MatMul", f"x {name}", f"y{i}") for i, name in enumerate(names)]
    proto = model(
        nodes,
        {"x": [1, 64]},
        {f"y{i}": [1, 64] for i in range(4)},
        constants={name: np.zeros(shape, np.float32) for name in names},
    )
    save(proto, str(tmp_path / "four.onnx"))
    made = opened(str(tmp_path / "four.onnx"))
    made.update_weights([[tensor(name, np.zeros(shape, np.float32)) for name in names]])
    seen: set[float] = set()
    mixed: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        ones = [np.ones((1, 64), np.float32)]
        while not stop.is_set():
            found = {float(value) for array in results(made, ones) for value in array.ravel()}
            seen.update(found)
            mixed.extend([found] if len(found) > 1 else [])

    reader = threading.Thread(target=read)
    reader.start()
    number, deadline = 0, time.monotonic() + 60
    while number < 400 or len(seen) <= 10:  # or the reader saw no update at all
        assert time.monotonic() < deadline
        number += 1
        made.update_weights([[tensor(name, np.full(shape, number, np.float32)) for name in names]])
    stop.set()
    reader.join()
    assert not mixed


@pytest.mark.parametrize("kind", ["npz", "safetensors", "mindir"])
@pytest.mark.parametrize("part", ["all", "some"])
def test_weights_from_a_file(mlp: Model, tmp_path: Path, kind: str, part: str) -> None:
    from safetensors.numpy import save_file

    inputs, _ = saved("mlp")
    arrays = other(mlp_weights())
    arrays = arrays if part == "all" else dict(list(arrays.items())[:2])
    expected = with_weights(file_of("mlp"), arrays, tmp_path)
    path = {
        "npz": str(tmp_path / "w.npz"),
        "safetensors": str(tmp_path / "w.safetensors"),
        "mindir": expected,
    }[kind]
    if kind == "npz":
        np.savez(path, **arrays)
    elif kind == "safetensors":
        save_file(arrays, path)
    mlp.load_weights(path)
    np.testing.assert_allclose(
        results(mlp, inputs)[0], results(opened(expected), inputs)[0], 1e-5, 1e-6
    )
    assert version(mlp) == "1"


def test_files_that_do_not_fit(mlp: Model, tmp_path: Path) -> None:
    name, array = next(iter(mlp_weights().items()))
    np.savez(tmp_path / "stranger.npz", **{name: array, "stranger": array})
    fails(InputError, "stranger.npz: ", mlp.load_weights, str(tmp_path / "stranger.npz"))
    fails(InputError, "has no weight 'stranger'", mlp.load_weights, str(tmp_path / "stranger.npz"))
    fails(InputError, "load_weights failed! Error is", mlp.load_weights, str(tmp_path / "none.npz"))
    fails(
        InputError,
        "cannot be cut into 1 equal parts along axis 7",
        mlp.load_weights,
        str(tmp_path / "stranger.npz"),
        {name: 7},
    )
    assert version(mlp) == "0"


def test_a_parameter_that_no_node_uses_is_skipped_in_the_models_own_file(tmp_path: Path) -> None:
    """State of the model, and leftovers of training, stand in every MindIR file of it."""
    folder = tmp_path / "copy"
    shutil.copytree(DATA / "state_counter", folder)
    made = built("state_counter")
    made.load_weights(str(folder / "state_counter.mindir"))
    assert version(made) == "1"
