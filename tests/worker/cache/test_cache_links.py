"""Links and names of model files: whatever they lead to, a model from the cache computes with its
own files.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import DATA, fails, saved
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data
from onnx_models import model, node

from rankmesh import Context, Model, ModelType
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto
from rankmesh.compiler.model_file.user_tensors import UserTensors
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.store import CacheStore
from rankmesh.worker.executors.onnxruntime import OnnxRuntime

_SIZE = 2000
_PRIVATE = {"ascend_context": {"weights_mode": "private"}}
_NAMES = ("first", "second")
Write = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; files settle at once."""
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_onnx(folder: Path) -> Path:
    """y = (x + first) * second for x [2000]; writes what the names may lead to, too: `v1` and
    `v2`."""
    made = model(
        [node("Add", "x first", "s"), node("Mul", "s second", "y")],
        {"x": [_SIZE]},
        {"y": [_SIZE]},
        constants={name: np.zeros(_SIZE, np.float32) for name in _NAMES},
    )
    for tensor in made.graph.initializer:
        set_external_data(tensor, tensor.name, offset=0, length=4 * _SIZE)
        tensor.ClearField("raw_data")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    for name, value in (("v1", 3.0), ("v2", 7.0)):
        (folder / name).write_bytes(np.full(_SIZE, value, np.float32).tobytes())
    return folder / "m.onnx"


def write_mindir(folder: Path) -> Path:
    """A split MLP whose first layer lies in `first`, and the others in `second`."""
    proto = ModelProto.FromString((DATA / "split_mlp" / "split_mlp_graph.mindir").read_bytes())
    for parameter in proto.graph.parameter:
        parameter.external_data.location = "first" if "fc1" in parameter.name else "second"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.mindir").write_bytes(proto.SerializeToString())
    data = np.fromfile(DATA / "split_mlp" / "split_mlp_variables" / "data_0", np.uint8)
    data.tofile(folder / "v1")
    weights = data[: len(data) // 4 * 4].view(np.float32)
    np.where(np.isfinite(weights), weights * 2, weights).tofile(folder / "v2")
    with open(folder / "v2", "ab") as file:
        file.write(bytes(len(data) % 4))
    return folder / "m.mindir"


@pytest.fixture(params=[write_onnx, write_mindir])
def write(request: pytest.FixtureRequest) -> Write:
    """Writes a model that names the files `first` and `second`, and `v1` and `v2`, to which these
    may be links.
    """
    return request.param  # type: ignore[no-any-return]


def link(place: Path, target: str) -> None:
    """Make `place` a link to `target` at once, as deployments do."""
    fresh = place.with_name(place.name + ".fresh")
    fresh.symlink_to(target)
    fresh.replace(place)


def point(folder: Path, first: str, second: str) -> None:
    for name, target in zip(_NAMES, (first, second), strict=True):
        link(folder / name, target)


def build(path: Path, **arguments: Any) -> Model:
    context, opened = Context(), Model()
    context.cpu.thread_num = 1
    opened.build_from_file(str(path), ModelType.MINDIR, context, **arguments)
    for thread in threading.enumerate():
        if thread.name == "rankmesh-model-cache":
            thread.join()
    return opened


def kept(opened: Model) -> bool:
    assert opened._session is not None
    return opened._session._program.kept


def numbers(opened: Model) -> np.ndarray:
    inputs = (
        [np.ones(_SIZE, np.float32)]
        if len(opened.get_inputs()[0].shape) == 1
        else saved("split_mlp")[0]
    )
    return opened.predict(inputs)[0].get_data_to_numpy()


def require_own_numbers(path: Path, from_cache: bool | None = None) -> np.ndarray:
    """The numbers of the model as it now is on disk, which what comes from the cache must have,
    too.
    """
    opened, own = build(path), build(path, config_dict=_PRIVATE)
    assert from_cache is None or kept(opened) is from_cache
    assert not kept(own)
    np.testing.assert_array_equal(numbers(opened), numbers(own))
    return numbers(own)


def test_one_main_file_with_its_data_exchanged_is_another_model(
    tmp_path: Path, write: Write
) -> None:
    point(write(tmp_path / "a").parent, "v1", "v2")
    one = require_own_numbers(next((tmp_path / "a").glob("m.*")))
    path = write(tmp_path / "b")
    point(path.parent, "v2", "v1")
    for from_cache in (False, True):
        assert (require_own_numbers(path, from_cache) != one).any()


def test_links_that_are_swapped_lead_to_another_model(tmp_path: Path, write: Write) -> None:
    """And those that are swapped back to the first one, which the cache still has."""
    path = write(tmp_path)
    point(tmp_path, "v1", "v2")
    one = require_own_numbers(path, False)
    require_own_numbers(path, True)
    point(tmp_path, "v2", "v1")
    assert (require_own_numbers(path, False) != one).any()
    require_own_numbers(path, True)
    point(tmp_path, "v1", "v2")
    np.testing.assert_array_equal(require_own_numbers(path), one)


@pytest.mark.parametrize("data", ["the files", "their folder"])
def test_a_release_is_swapped_by_the_link_to_its_folder(
    tmp_path: Path, write: Write, data: str
) -> None:
    """`current` leads to a folder with links of its own, or with files."""
    for release, names in (("r1", ("v1", "v2")), ("r2", ("v2", "v1"))):
        write(tmp_path / release)
        for name, value in zip(_NAMES, names, strict=True):
            if data == "the files":
                link(tmp_path / release / name, value)
            else:
                shutil.copy(tmp_path / release / value, tmp_path / release / name)
    link(tmp_path / "current", "r1")
    path = tmp_path / "current" / next((tmp_path / "r1").glob("m.*")).name
    one = require_own_numbers(path, False)
    require_own_numbers(path, True)
    link(tmp_path / "current", "r2")
    assert (require_own_numbers(path, False) != one).any()


def test_a_link_to_the_main_file_has_the_data_of_its_own_folder(
    tmp_path: Path, write: Write
) -> None:
    path = write(tmp_path / "a")
    point(tmp_path / "a", "v1", "v2")
    one = require_own_numbers(path)
    write(tmp_path / "b")
    point(tmp_path / "b", "v2", "v1")
    (tmp_path / "b" / path.name).unlink()
    (tmp_path / "b" / path.name).symlink_to(path)
    if (
        path.suffix == ".onnx"
    ):  # of a MindIR, the graph that a link leads to lies outside the model's folder
        assert (require_own_numbers(tmp_path / "b" / path.name, False) != one).any()
        np.testing.assert_array_equal(require_own_numbers(path), one)


def test_a_copy_without_links_is_built_of_its_own_files(tmp_path: Path, write: Write) -> None:
    """A kept plan says where weights lie behind all links: a copy has them elsewhere, and another
    file there.
    """
    path = write(tmp_path / "a")
    point(tmp_path / "a", "v1", "v2")
    one = require_own_numbers(path)
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # which follows links
    for name in ("v1", "v2"):
        (tmp_path / "b" / name).write_bytes(bytes((tmp_path / "b" / name).stat().st_size))
    np.testing.assert_array_equal(require_own_numbers(tmp_path / "b" / path.name), one)
    np.testing.assert_array_equal(require_own_numbers(tmp_path / "b" / path.name), one)


def test_files_that_exchange_their_names_are_another_model(tmp_path: Path, write: Write) -> None:
    path = write(tmp_path)
    for name, value in zip(_NAMES, ("v1", "v2"), strict=True):
        (tmp_path / value).rename(tmp_path / name)
    one = require_own_numbers(path)
    (tmp_path / "first").rename(tmp_path / "third")
    (tmp_path / "second").rename(tmp_path / "first")
    (tmp_path / "third").rename(tmp_path / "second")
    assert (require_own_numbers(path, False) != one).any()


def test_hard_links_to_one_file_are_changed_through_any_of_them(
    tmp_path: Path, write: Write
) -> None:
    path = write(tmp_path)
    for name in _NAMES:
        os.link(tmp_path / "v1", tmp_path / name)
    one = require_own_numbers(path)
    require_own_numbers(path, True)
    (tmp_path / "v1").write_bytes((tmp_path / "v2").read_bytes())
    assert (require_own_numbers(path, False) != one).any()


def test_data_that_only_the_build_reads_is_a_file_of_the_model(tmp_path: Path) -> None:
    """A sparse weight becomes dense when it is read: the plan has nothing of the file that holds
    its values.
    """
    values = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    set_external_data(values, "values", offset=0, length=8)
    values.ClearField("raw_data")
    made = model([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]})
    indices = numpy_helper.from_array(np.array([0, 3]), "indices")
    made.graph.sparse_initializer.add().CopyFrom(helper.make_sparse_tensor(values, indices, [4]))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    for value in (3.0, 7.0):
        (tmp_path / "values").write_bytes(np.full(2, value, np.float32).tobytes())
        (got,) = build(tmp_path / "m.onnx").predict([np.zeros(4, np.float32)])
        assert got.get_data_to_numpy().tolist() == [value, 0, 0, value]


def test_links_that_are_swapped_while_a_kept_build_is_loaded_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What collectives and outputs take as it is, is read from the files; the rest is in the
    entry."""
    path = write_onnx(tmp_path)
    point(tmp_path, "v1", "v2")
    require_own_numbers(path, False)
    load = OnnxRuntime.load

    def swapping(*arguments: Any) -> Any:
        point(tmp_path, "v2", "v1")
        return load(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(OnnxRuntime, "load", swapping)
        fails(
            RuntimeError,
            f"{path}: a file of the model has changed while it was opened: open it again.",
            build,
            path,
        )
    require_own_numbers(path, False)


def test_links_that_are_swapped_while_a_model_is_read_are_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where they are swapped back before the files are hashed: the build may be of either."""
    path = write_onnx(tmp_path)
    point(tmp_path, "v1", "v2")
    settle = UserTensors.settle

    def swapping(*arguments: Any) -> None:
        settle(*arguments)
        point(tmp_path, "v2", "v1")
        point(tmp_path, "v1", "v2")

    with monkeypatch.context() as patch:
        patch.setattr(UserTensors, "settle", swapping)
        build(path)
    assert "changed while it was read" in caplog.text
    assert CacheStore(cache, 1 << 30).entries() == []
    require_own_numbers(path, False)
