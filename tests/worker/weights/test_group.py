"""Models of a group that share live weights: what one updates all compute with, and what stays
apart.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_weights import other, weights, with_weights
from encrypted import KEY, encrypt_file
from mindir_models import fails, file_of, saved
from onnx import save
from onnx_models import model, node
from weights_user import User, tensor

from rankmesh import (
    Context,
    Model,
    ModelGroup,
    ModelGroupFlag,
    ModelType,
    UsageError,
    WeightManager,
)
from rankmesh.worker.weights import readers as quiescence

PLAIN: dict[str, Any] = {}
ENCRYPTED = {"dec_key": KEY}
SHARED = {"config_dict": {"pids": "0"}}
Values = Mapping[str, np.ndarray]


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def user() -> Iterator[User]:
    made = User()
    yield made
    made.close()


def grouped(count: int) -> list[Model]:
    models, group = [Model() for _ in range(count)], ModelGroup(ModelGroupFlag.SHARE_WEIGHT)
    group.add_model(models)
    return models


def build(made: Model, path: str, **arguments: Any) -> Model:
    context = Context()
    context.cpu.thread_num = 1
    made.build_from_file(path, ModelType.MINDIR, context, **arguments)
    return made


def updated(made: Model, values: Values) -> None:
    made.update_weights([[tensor(name, array) for name, array in values.items()]])


def results(made: Model, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [output.get_data_to_numpy() for output in made.predict(inputs)]


def alike(
    models: Sequence[Model], inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> None:
    for made in models:
        for got, want in zip(results(made, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def variable(folder: Path, path: str) -> dict[str, Any]:
    """The arguments of a build whose weights updates may replace."""
    names = folder / "names.txt"
    names.write_text("\n".join(name for name in weights(path) if name.endswith("weight")))
    return {"config_dict": {"ascend_context": {"variable_weights_file": str(names)}}}


@pytest.mark.parametrize("updating", [0, 1, 2])
@pytest.mark.parametrize("way", ["packed before", "variable", "shared", "encrypted"])
def test_an_update_by_one_is_seen_by_all(way: str, updating: int, tmp_path: Path) -> None:
    """Whatever made the weights live, the update itself included, and whoever was built before or
    afterwards.
    """
    path = file_of("mlp")
    inputs, exported = saved("mlp")
    new = other(weights(path))
    expected = results(build(Model(), with_weights(path, new, tmp_path)), inputs)
    arguments = {
        "packed before": PLAIN,
        "variable": variable(tmp_path, path),
        "shared": SHARED,
        "encrypted": ENCRYPTED,
    }[way]
    models = grouped(4)
    build(models[0], path)
    build(
        models[1],
        str(encrypt_file(Path(path), tmp_path / "e.mindir")) if way == "encrypted" else path,
        **arguments,
    )
    build(models[2], path)
    alike(models[:3], inputs, exported)
    updated(models[updating], new)
    build(models[3], path)
    alike(models, inputs, expected)
    assert [made.get_model_info("weights_version") for made in models] == ["1"] * 4
    models[(updating + 1) % 4].rollback()
    alike(models, inputs, exported)
    models[3].load_weights(with_weights(path, new, tmp_path / "again"))
    alike(models, inputs, expected)


def scaled(folder: Path, name: str, constants: Values) -> str:
    """An ONNX model with one output per weight, x times it."""
    nodes = [node("MatMul", f"x {key}", f"y_{key}") for key in constants]
    save(
        model(
            nodes, {"x": [1, 64]}, {f"y_{key}": [1, 64] for key in constants}, constants=constants
        ),
        str(folder / name),
    )
    return str(folder / name)


ONES = [np.ones((1, 64), np.float32)]


def full(value: float) -> np.ndarray:
    return np.full((64, 64), value, np.float32)


def values(made: Model) -> list[float]:
    found = [np.unique(array) for array in results(made, ONES)]
    assert all(one.size == 1 for one in found)
    return [float(one[0]) / 64 for one in found]


def test_only_equal_weights_of_one_name_are_one(tmp_path: Path) -> None:
    first, second, third = grouped(3)
    build(first, scaled(tmp_path, "1.onnx", {"a": full(1), "b": full(2), "c": full(1)}))
    build(second, scaled(tmp_path, "2.onnx", {"a": full(1), "b": full(3), "d": full(1)}))
    updated(first, {"a": full(5), "b": full(6), "c": full(7)})
    assert (values(first), values(second)) == ([5, 6, 7], [5, 3, 1])
    build(third, scaled(tmp_path, "3.onnx", {"d": full(1), "b": full(3), "a": full(2)}))
    updated(third, {"b": full(8), "a": full(9)})
    updated(second, {"d": full(10)})
    assert (values(first), values(second), values(third)) == ([5, 6, 7], [5, 8, 10], [10, 8, 9])


def test_an_update_that_fails_changes_nobody(tmp_path: Path) -> None:
    first, second = grouped(2)
    for made in (first, second):
        build(made, scaled(tmp_path, "m.onnx", {"a": full(1), "b": full(2)}))
    fails(
        RuntimeError,
        "the weight 'b' has the shape [64, 64], got [3]",
        updated,
        first,
        {"a": full(5), "b": np.zeros(3, np.float32)},
    )
    assert values(first) == values(second) == [1, 2]


def test_groups_and_lone_models_stay_apart(tmp_path: Path) -> None:
    path = scaled(tmp_path, "m.onnx", {"a": full(1)})
    (first,), (second,), alone = grouped(1), grouped(1), Model()
    for made in (first, second, alone):
        build(made, path, **SHARED)
    updated(first, {"a": full(2)})
    assert [values(made) for made in (first, second, alone)] == [[2], [1], [1]]


def test_paths_share_updates_too(tmp_path: Path) -> None:
    path = scaled(tmp_path, "m.onnx", {"a": full(1)})
    group = ModelGroup(ModelGroupFlag.SHARE_WEIGHT_WORKSPACE)
    group.add_model([path])
    group.cal_max_size_of_workspace(ModelType.MINDIR, Context())
    first, second = build(Model(), path), build(Model(), path)
    updated(first, {"a": full(2)})
    assert values(first) == values(second) == [2]


def test_with_a_workspace_alone_updates_stay_apart(tmp_path: Path) -> None:
    path, group = scaled(tmp_path, "m.onnx", {"a": full(1)}), ModelGroup()
    group.add_model([path])
    first, second = build(Model(), path), build(Model(), path)
    updated(first, {"a": full(2)})
    assert (values(first), values(second)) == ([2], [1])


def test_weights_outlive_the_model_that_brought_them(tmp_path: Path) -> None:
    path = scaled(tmp_path, "m.onnx", {"a": full(1)})
    models = grouped(2)
    for made in models:
        build(made, path, **SHARED)
    updated(models[0], {"a": full(2)})
    del made, models[0]
    assert values(models[0]) == [2]
    updated(models[0], {"a": full(3)})
    assert values(models[0]) == [3]


def test_models_that_are_dropped_leave_no_memory(tmp_path: Path) -> None:
    def memory_files() -> int:
        gc.collect()
        paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sum(
            os.readlink(path).startswith("/memfd:rankmesh-weights")
            for path in paths
            if os.path.lexists(path)
        )

    path, before = scaled(tmp_path, "m.onnx", {"a": full(1)}), memory_files()
    models = grouped(2)
    for made in models:
        build(made, path, **SHARED)
    updated(models[1], {"a": full(2)})
    assert memory_files() > before
    del made, models
    assert memory_files() == before


def test_each_model_sees_all_of_an_update_or_none(tmp_path: Path) -> None:
    """Two models with the same four weights, which always hold one number; each is read while the
    first updates.
    """
    names = [f"w{number}" for number in range(4)]
    path = scaled(tmp_path, "four.onnx", {name: full(0) for name in names})
    models = grouped(2)
    for made in models:
        build(made, path, **SHARED)
    seen: list[set[float]] = [set(), set()]
    mixed: list[Any] = []
    stop = threading.Event()

    def read(index: int) -> None:
        while not stop.is_set():
            found = set(values(models[index]))
            seen[index] |= found
            mixed.extend([found] if len(found) > 1 else [])

    readers = [threading.Thread(target=read, args=(index,)) for index in range(2)]
    for reader in readers:
        reader.start()
    number, deadline = 0, time.monotonic() + 60
    while number < 200 or min(map(len, seen)) <= 5:
        assert time.monotonic() < deadline
        number += 1
        updated(models[0], {name: full(number) for name in names})
    stop.set()
    for reader in readers:
        reader.join()
    assert not mixed


def test_an_update_waits_for_requests_of_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiescence, "READERS_DEADLINE", 0.05)
    models = grouped(2)
    for made in models:
        build(made, scaled(tmp_path, "m.onnx", {"a": full(1)}), **SHARED)
    session: Any = models[1]._session
    with session._program._live.hold():  # as in the middle of a request
        updated(models[0], {"a": full(2)})
        fails(
            UsageError,
            "computes with the version before the current one",
            updated,
            models[0],
            {"a": full(3)},
        )
    assert values(models[0]) == values(models[1]) == [2]
    updated(models[0], {"a": full(4)})
    assert values(models[0]) == values(models[1]) == [4]


def test_a_listed_process_follows_updates_by_any_model_of_the_group(
    user: User, tmp_path: Path
) -> None:
    """It has the first model's weights and no others."""
    first = scaled(tmp_path, "1.onnx", {"a": full(1), "b": full(2)})
    second = scaled(tmp_path, "2.onnx", {"a": full(1), "c": full(3)})
    models = grouped(2)
    build(models[0], second)
    build(models[1], first, config_dict={"pids": str(user.pid)})
    handle = models[1].get_model_info("shareable_weight_mem_handle")
    assert user("build", first, {"shared_mem_handle": handle}) == ""
    updated(models[0], {"a": full(4), "c": full(5)})
    assert values(models[0]) == [4, 5]
    assert (
        values(models[1]) == [float(array[0, 0]) / 64 for array in user("predict", ONES)] == [4, 2]
    )


def test_who_may_not_have_all_weights_gets_none(
    user: User, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = scaled(tmp_path, "1.onnx", {"a": full(1), "b": full(2)})
    second = scaled(tmp_path, "2.onnx", {"a": full(1), "c": full(3)})
    models = grouped(4)
    build(models[0], first, **SHARED)
    build(models[1], second, config_dict={"pids": str(user.pid)})
    assert f"{second}: lists processes" in caplog.text and "it shares none with it" in caplog.text
    handle = models[1].get_model_info("shareable_weight_mem_handle")
    assert user("build", second, {"shared_mem_handle": handle}) == ""
    updated(models[0], {"a": full(4)})
    assert [values(made) for made in models[:2]] == [[4, 2], [1, 3]]
    build(models[2], second)
    fails(
        UsageError,
        f"its weights lie with those of {first}",
        WeightManager.share,
        models[2],
        [user.pid],
    )
    with WeightManager.share(
        build(models[3], first), [user.pid]
    ) as manager:  # all that the first has, and no more
        assert user("build", first, {"shared_mem_handle": manager.handle}) == ""
    assert [float(array[0, 0]) / 64 for array in user("predict", ONES)] == [4, 2]


def test_weights_of_another_process_stay_there(
    user: User, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = scaled(tmp_path, "m.onnx", {"a": full(1)})
    owner, models = Model(), grouped(2)
    build(owner, path, config_dict={"pids": owner.get_model_info("current_pid")})
    build(
        models[0],
        path,
        config_dict={"shared_mem_handle": owner.get_model_info("shareable_weight_mem_handle")},
    )
    assert f"{path} uses weights of another process: it shares no weights" in caplog.text
    build(models[1], path)
    updated(models[1], {"a": full(2)})
    assert [values(made) for made in (owner, *models)] == [[1], [1], [2]]
    updated(owner, {"a": full(3)})
    assert [values(made) for made in (owner, *models)] == [[3], [3], [2]]
    fails(UsageError, "these weights belong to another process", updated, models[0], {"a": full(4)})


def test_a_resize_keeps_a_groups_weights() -> None:
    inputs, _ = saved("mlp")
    models = grouped(2)
    for made in models:
        build(made, file_of("mlp"))
    models[0].resize(models[0].get_inputs(), [[2, 16]])
    updated(models[1], other(weights(file_of("mlp"))))
    want = results(models[1], inputs)[0]
    np.testing.assert_allclose(results(models[0], [inputs[0][:2]])[0], want[:2], 1e-5, 1e-6)
