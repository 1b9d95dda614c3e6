"""Models in the cache of a hub: the model and its data are links into one folder of blobs."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from lite_models import LiteModel
from mindir_models import DATA, file_of, saved
from onnx_models import model, node
from processes import rankmesh as command

import rankmesh
from rankmesh.comm.errors import ModelError
from rankmesh.comm.transfer.model_files import ListRequest
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.model_listing import listed
from rankmesh.worker.cache.store import CacheStore

X = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)


def in_hub(folder: Path, hub: Path) -> Path:
    """The files of a folder as the hub's cache has them; the folder of links."""
    snapshot, blobs = hub / "snapshots" / "1f", hub / "blobs"
    blobs.mkdir(parents=True)
    for number, file in enumerate(sorted(folder.rglob("*"))):
        if file.is_file():
            blob, place = blobs / f"b{number}", snapshot / file.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, blob)
            place.symlink_to("../" * (len(place.relative_to(hub).parts) - 1) + f"blobs/{blob.name}")
    return snapshot


def write(folder: Path, large: float = 1.0, external: bool = True) -> Path:
    """y [n, 64] = relu(x w1) w2, with the weights in model.onnx_data or in the file itself."""
    rng = np.random.default_rng(1)
    shapes = {"w1": (64, 128), "w2": (128, 64)}
    constants = {name: rng.standard_normal(one, np.float32) for name, one in shapes.items()}
    constants["w2"] *= np.float32(large)
    nodes = [node("MatMul", "x w1", "h"), node("Relu", "h", "a"), node("MatMul", "a w2", "y")]
    made = model(nodes, {"x": ["n", 64]}, {"y": ["n", 64]}, constants=constants)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(
        made,
        folder / "model.onnx",
        save_as_external_data=external,
        location="model.onnx_data",
        size_threshold=0,
    )
    return folder / "model.onnx"


def expected(path: Path) -> np.ndarray:
    (found,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(
        None, {"x": X}
    )
    return np.asarray(found)


def predicted(path: Path | str) -> np.ndarray:
    built = rankmesh.Model()
    context = rankmesh.Context()
    context.cpu.thread_num = 1
    built.build_from_file(str(path), rankmesh.ModelType.MINDIR, context)
    for thread in threading.enumerate():
        if thread.name == "rankmesh-model-cache":
            thread.join(60)
    return built.predict([X])[0].get_data_to_numpy()


@pytest.fixture(params=[True, False], ids=["external", "own"])
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A linked model, and what it computes."""
    path = write(tmp_path / "plain", external=request.param)
    return in_hub(path.parent, tmp_path / "models--a--b") / "model.onnx", expected(path)


def test_a_model_computes_with_its_links(linked: tuple[Path, np.ndarray]) -> None:
    path, right = linked
    np.testing.assert_allclose(predicted(path), right, rtol=1e-5)


def test_an_orchestrator_and_the_torch_executor_follow_them(
    linked: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, right = linked
    with rankmesh.Orchestrator(str(path), cache=False) as living:
        np.testing.assert_allclose(living.predict({"x": X})["y"], right, rtol=1e-5)
    monkeypatch.setenv("RANKMESH_EXECUTOR", "torch")
    np.testing.assert_allclose(predicted(path), right, rtol=1e-5, atol=1e-4)


def test_shards_and_a_converted_model_have_the_weights(
    linked: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    path, right = linked
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "y.npz", y=right)
    done = command("slice", path, "--ranks", 2, "-o", tmp_path / "shards")
    assert done.returncode == 0, done.stderr
    done = command("convert", "--fmk=ONNX", f"--modelFile={path}", f"--outputFile={tmp_path}/new")
    assert done.returncode == 0, done.stderr
    case = ("--inputs", tmp_path / "x.npz", "--expect", tmp_path / "y.npz", "--rtol", "1e-4")
    for one in (tmp_path / "shards" / "model_rank{rank}.onnx", tmp_path / "new.mindir", path):
        done = command("run", one, *case)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_cache_knows_the_blobs(
    linked: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub elsewhere with the same blobs has the same entry, which reads its own weights."""
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    path, right = linked
    shutil.copytree(tmp_path / "models--a--b", tmp_path / "other", symlinks=True)
    places = [path, path, tmp_path / "other" / "snapshots" / "1f" / path.name]
    for number, one in enumerate(places):
        if number == 2:
            shutil.rmtree(tmp_path / "models--a--b")
        np.testing.assert_allclose(predicted(one), right, rtol=1e-5)
    assert len(CacheStore(tmp_path / "cache", 1 << 30).entries()) == 1


@pytest.mark.pure
def test_other_hosts_get_files_with_the_names_of_the_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_CACHE", "off")
    snapshot = in_hub(write(tmp_path / "plain").parent, tmp_path / "hub")
    found = listed(ListRequest(str(snapshot / "model.onnx"), 1, (0,)))
    assert [one.file.name for one in found.files] == ["model.onnx", "model.onnx_data"]


def test_split_mindir_and_its_folder_of_weights_are_links(tmp_path: Path) -> None:
    snapshot = in_hub(Path(file_of("split_mlp")).parent, tmp_path / "hub")
    case = DATA / "split_mlp" / "split_mlp.npz"
    done = command("run", snapshot / "split_mlp.mindir", "--inputs", case, "--expect", case)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_linked_mindir_with_its_weights_inside(tmp_path: Path) -> None:
    (tmp_path / "link.mindir").symlink_to(file_of("mlp"))
    inputs, outputs = saved("mlp")
    built = rankmesh.Model()
    built.build_from_file(str(tmp_path / "link.mindir"), rankmesh.ModelType.MINDIR)
    for one, right in zip(built.predict(inputs), outputs, strict=True):
        np.testing.assert_allclose(one.get_data_to_numpy(), right, rtol=1e-4, atol=1e-5)


def test_data_of_both_folders_are_found(tmp_path: Path) -> None:
    """A link that a user has replaced by a copy lies in the model's own folder."""
    path = write(tmp_path / "plain")
    snapshot = in_hub(path.parent, tmp_path / "hub")
    (snapshot / "model.onnx_data").unlink()
    shutil.copy(path.with_name("model.onnx_data"), snapshot)
    np.testing.assert_allclose(predicted(snapshot / "model.onnx"), expected(path), rtol=1e-5)


def renamed(path: Path, location: str) -> None:
    """Have the model name other data."""
    made = onnx.load(path, load_external_data=False)
    for tensor in made.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(made.SerializeToString())


@pytest.mark.pure
@pytest.mark.parametrize(
    "location",
    ["../../blobs/b1", "../b1", "sub/../../../blobs/b1", "out", "out/secret", "/{blobs}/b1"],
)
def test_what_leads_out_of_both_folders_is_refused(tmp_path: Path, location: str) -> None:
    """And what the file itself names beside the blobs, rather than by a link."""
    path = write(tmp_path / "plain")
    (tmp_path / "secret").write_bytes(path.with_name("model.onnx_data").read_bytes())
    renamed(path, location.replace("{blobs}", str(tmp_path / "hub" / "blobs")[1:]))
    snapshot = in_hub(path.parent, tmp_path / "hub")
    (snapshot / "sub").mkdir()
    (snapshot / "out").symlink_to(tmp_path if "/" in location else tmp_path / "secret")
    with pytest.raises(ModelError, match="lies outside the model's folder"):
        load_model(str(snapshot / "model.onnx"))
    assert (tmp_path / "hub" / "blobs" / "b1").exists()


@pytest.mark.pure
def test_a_model_that_is_no_link_has_no_second_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "plain")
    snapshot = in_hub(path.parent, tmp_path / "hub")
    (snapshot / "model.onnx").unlink()
    shutil.copy(path, snapshot)
    with pytest.raises(ModelError, match="lies outside the model's folder"):
        load_model(str(snapshot / "model.onnx"))


def test_external_tensors_of_ms_files_are_links(tmp_path: Path) -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "w.bin").write_bytes(weight.tobytes())
    lite = LiteModel()
    x = lite.input(weight)
    place = [{"location": "w.bin", "offset": 0, "length": weight.nbytes}]
    w = lite.constant(weight, "w", data=b"", externalData=place)
    lite.outputs = [lite.value(np.float32, (3, 4), "y")]
    lite.node("AddFusion", [x, w], lite.outputs)
    (tmp_path / "plain" / "m.ms").write_bytes(lite.content())
    path = in_hub(tmp_path / "plain", tmp_path / "hub") / "m.ms"
    built = rankmesh.Model()
    built.build_from_file(str(path), rankmesh.ModelType.MINDIR)
    (y,) = built.predict([weight])
    np.testing.assert_array_equal(y.get_data_to_numpy(), 2 * weight)
