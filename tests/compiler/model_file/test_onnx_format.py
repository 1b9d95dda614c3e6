"""Weights inside ONNX files: where they stay in the file, and where they are read."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, load, numpy_helper, save
from onnx_models import BF16, model, node

from rankmesh import Context, Model, ModelType
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.model_file.onnx_format import read_onnx
from rankmesh.compiler.onnx_graph.external import external_array, external_place
from rankmesh.worker.cache import identity

COUNT = 4096 // 4
LARGE = np.random.default_rng(0).standard_normal(COUNT, np.float32)


def write(path: Path, **constants: np.ndarray | TensorProto) -> str:
    """y = x + large, and other constants that nobody uses."""
    nodes = [node("Add", "x large", "y")]
    made = model(nodes, {"x": [COUNT]}, {"y": [COUNT]}, constants={"large": LARGE, **constants})
    path.write_bytes(made.SerializeToString())
    return str(path)


def initializers(made: ModelProto) -> dict[str, TensorProto]:
    return {tensor.name: tensor for tensor in made.graph.initializer}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int64, np.bool_])
def test_large_weights_stay_in_the_file(tmp_path: Path, dtype: np.dtype[np.generic]) -> None:
    other = (LARGE.reshape(4, -1) * 100).astype(dtype)
    other = np.concatenate([other, other])
    path = write(tmp_path / "m.onnx", other=other)
    found = initializers(read_onnx(path, True))
    for name, expected in (("large", LARGE), ("other", other)):
        tensor = found[name]
        large = expected.nbytes >= 4096
        assert (tensor.data_location == TensorProto.EXTERNAL, bool(tensor.raw_data)) == (
            large,
            not large,
        )
        array = external_array(tensor, str(tmp_path)) if large else numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(array.view(np.uint8), expected.view(np.uint8))


def test_all_else_is_as_it_was(tmp_path: Path) -> None:
    fours = helper.make_tensor("fours", TensorProto.INT4, [3], [1, 2, 3])
    path = write(tmp_path / "m.onnx", shape=np.array([1, 2]), fours=fours)
    read, whole = read_onnx(path, True), load(path)
    for tensor in read.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(
                numpy_helper.from_array(external_array(tensor, str(tmp_path)), tensor.name)
            )
    assert read == whole


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(
            name="w", data_type=TensorProto.INT4, dims=[16384], raw_data=bytes(8192)
        ),  # two in a byte
        TensorProto(
            name="w", data_type=TensorProto.FLOAT, dims=[2048], raw_data=bytes(8191)
        ),  # a byte is missing
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(8192)),
    ],
)
def test_what_is_no_plain_array_is_read(tmp_path: Path, tensor: TensorProto) -> None:
    assert initializers(read_onnx(write(tmp_path / "m.onnx", w=tensor), True))["w"] == tensor


def test_weights_stay_in_the_file_behind_a_link(tmp_path: Path) -> None:
    """As caches of downloads have them: the folder of the file to which a link leads is allowed."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "models").mkdir()
    write(tmp_path / "blobs" / "0af3")
    link = tmp_path / "models" / "m.onnx"
    link.symlink_to(tmp_path / "blobs" / "0af3")
    found = load_model(str(link))
    (tensor,) = found.model.graph.initializer
    assert (found.folder, external_place(tensor)[0]) == (str(tmp_path), "blobs/0af3")
    np.testing.assert_array_equal(external_array(tensor, found.folder), LARGE)
    assert predicted(link) == pytest.approx(LARGE + 1)


def test_it_computes_the_same_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "m.mindir")
    monkeypatch.chdir(tmp_path)
    for path in (Path("m.mindir"), tmp_path / "m.mindir", Path("..") / tmp_path.name / "m.mindir"):
        assert predicted(path) == pytest.approx(LARGE + 1)


def test_the_model_cache_knows_it_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights that are results as they are, and thus read from the file that is there now."""
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    old, new = tmp_path / "m.onnx", tmp_path / "n.onnx"
    save(
        model(
            [node("Add", "x large", "y")],
            {"x": [COUNT]},
            {"y": [COUNT], "large": [COUNT]},
            constants={"large": LARGE},
        ),
        str(old),
    )
    keep(old)
    shutil.move(old, new)
    keep(new)
    made = build(new)
    assert made._session is not None and made._session._program.kept
    for result, expected in zip(
        made.predict([np.ones(COUNT, np.float32)]), (LARGE + 1, LARGE), strict=True
    ):
        assert result.get_data_to_numpy() == pytest.approx(expected)


def keep(path: Path) -> None:
    """Build, and wait until the model cache has it."""
    build(path)
    for thread in threading.enumerate():
        if thread.name == "rankmesh-model-cache":
            thread.join()


def build(path: Path) -> Model:
    context, made = Context(), Model()
    context.cpu.thread_num = 1
    made.build_from_file(str(path), ModelType.MINDIR, context)
    return made


def predicted(path: Path) -> np.ndarray:
    array: np.ndarray = build(path).predict([np.ones(COUNT, np.float32)])[0].get_data_to_numpy()
    return array
