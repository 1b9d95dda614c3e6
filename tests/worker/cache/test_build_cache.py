"""Builds that are kept: the second process runs what the first one saved, to the bit."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import file_of, saved

from rankmesh import Context, Model, ModelType
from rankmesh.worker.cache import identity, verification
from rankmesh.worker.cache.store import CacheStore

_ENTRIES = [
    "mlp",
    "mobilenetv2",
    "bert_encoder",
    "split_mlp",
    "cf_while",
    "lstm",
    "dyn_mlp",
    "bf16_params",
    "gpt2",
]
_LIMIT = 1 << 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; files settle at once
    (tests/worker/cache/test_cache_identity.py has that).
    """
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(path: str, **arguments: Any) -> Model:
    context, model = Context(), Model()
    context.cpu.thread_num = 1
    model.build_from_file(path, ModelType.MINDIR, context, **arguments)
    return model


def wait_for_writers() -> None:
    _wait_for("rankmesh-model-cache")


def _wait_for(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def kept(model: Model) -> bool:
    assert model._session is not None
    return model._session._program.kept


def results(model: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [output.get_data_to_numpy() for output in model.predict(inputs)]


@pytest.mark.parametrize("entry", _ENTRIES)
def test_the_second_build_is_the_first_ones(entry: str) -> None:
    inputs, _ = saved(entry)
    first = build(file_of(entry))
    assert not kept(first)
    meanwhile = results(first, inputs)  # while the build is being written
    wait_for_writers()
    second = build(file_of(entry))
    assert kept(second)
    assert [(t.name, t.dtype, t.shape) for t in second.get_inputs()] == [
        (t.name, t.dtype, t.shape) for t in first.get_inputs()
    ]
    for array, again in zip(meanwhile, results(second, inputs), strict=True):
        np.testing.assert_array_equal(array, again)


def test_what_is_kept_can_be_resized() -> None:
    inputs, _ = saved("dyn_mlp")
    build(file_of("dyn_mlp"))
    wait_for_writers()
    models = [
        build(file_of("dyn_mlp")),
        build(file_of("dyn_mlp"), config_dict={"x": {"model_cache_dir": "other"}}),
    ]
    try:
        wait_for_writers()
        found = []
        for model in models:
            more = [np.repeat(array, 2, axis=0) if array.ndim else array for array in inputs]
            model.resize(model.get_inputs(), [list(array.shape) for array in more])
            found.append((results(model, more), [output.shape for output in model.get_outputs()]))
        assert [kept(model) for model in models] == [True, False]
        for a, b in zip(found[0][0], found[1][0], strict=True):
            np.testing.assert_array_equal(a, b)
        assert found[0][1] == found[1][1]
    finally:
        shutil.rmtree("other", ignore_errors=True)


def test_new_shapes_of_a_static_model_are_a_build_of_their_own() -> None:
    inputs, _ = saved("mlp")
    for expected in (False, True):
        model = build(file_of("mlp"))
        wait_for_writers()
        model.resize(model.get_inputs(), [[2, 16]])
        assert kept(model) is expected
        assert results(model, [inputs[0][:2]])[0].shape == (2, 10)
        wait_for_writers()


def test_options_are_builds_of_their_own() -> None:
    inputs, _ = saved("mlp")
    half = {"execution_plan": {"*": "data_type:float16"}}
    build(file_of("mlp"))
    wait_for_writers()
    first = build(file_of("mlp"), config_dict=half)
    assert not kept(first)
    wait_for_writers()
    second = build(file_of("mlp"), config_dict=half)
    assert kept(second)
    np.testing.assert_array_equal(results(first, inputs)[0], results(second, inputs)[0])
    assert (results(first, inputs)[0] != results(build(file_of("mlp")), inputs)[0]).any()


def test_changed_weights_are_another_model(tmp_path: Path) -> None:
    """Even where the graph file stays and only the data file beside it changes."""
    folder = shutil.copytree(os.path.dirname(file_of("split_mlp")), tmp_path / "model")
    graph = next(folder.rglob("*_graph.mindir"))
    inputs, _ = saved("split_mlp")
    before = results(build(str(graph)), inputs)[0]
    wait_for_writers()
    assert kept(build(str(graph)))
    data = max(
        (
            path
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".npz" and path != graph
        ),
        key=lambda path: path.stat().st_size,
    )
    content = bytearray(data.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    data.write_bytes(content)
    changed = build(str(graph))
    assert not kept(changed)
    assert (results(changed, inputs)[0] != before).any()
    wait_for_writers()
    assert kept(build(str(graph)))


def test_a_copy_of_the_file_finds_the_entry_once_it_is_known(tmp_path: Path, cache: Path) -> None:
    shutil.copy(file_of("mlp"), tmp_path / "copy.mindir")
    build(file_of("mlp"))
    wait_for_writers()
    build(str(tmp_path / "copy.mindir"))  # hashes it, and finds that nothing is to be written
    wait_for_writers()
    assert kept(build(str(tmp_path / "copy.mindir")))
    assert len(CacheStore(cache, _LIMIT).entries()) == 1


@pytest.mark.parametrize("damage", ["truncated weights", "garbage segment", "garbage plan", "gone"])
def test_a_damaged_entry_does_no_harm(
    cache: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    inputs, _ = saved("mlp")
    before = results(build(file_of("mlp")), inputs)[0]
    wait_for_writers()
    (entry,) = (path.path for path in CacheStore(cache, _LIMIT).entries())
    if damage == "truncated weights":
        os.truncate(entry / "segment_0.onnx.weights", 100)
    elif damage == "gone":
        shutil.rmtree(entry)
    else:
        name = "plan.msgpack" if damage == "garbage plan" else "segment_0.onnx"
        (entry / name).write_bytes(b"\xff" * (entry / name).stat().st_size)
    np.testing.assert_array_equal(results(build(file_of("mlp")), inputs)[0], before)
    wait_for_writers()
    assert ("this entry of the model cache cannot be read" in caplog.text) == (
        damage == "garbage plan"
    )
    build(file_of("mlp"))  # keeps a good entry where the one before only noticed the damage
    wait_for_writers()
    again = build(file_of("mlp"))
    assert kept(again)
    np.testing.assert_array_equal(results(again, inputs)[0], before)
    assert len(CacheStore(cache, _LIMIT).entries()) == 1
    if damage == "garbage segment":
        assert (entry / "segment_0.onnx").read_bytes()[:4] != b"\xff" * 4


def test_a_flipped_bit_is_noticed_behind_the_model(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The size stays, so the build takes it; the check says so and removes it, and the next build
    is right.
    """
    monkeypatch.setattr(verification, "VERIFICATION_DELAY", 0.0)
    inputs, _ = saved("mlp")
    before = results(build(file_of("mlp")), inputs)[0]
    wait_for_writers()
    (entry,) = CacheStore(cache, _LIMIT).entries()
    weights = entry.path / "segment_0.onnx.weights"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert kept(build(file_of("mlp")))
    _wait_for("rankmesh-cache-check")
    assert "segment_0.onnx.weights in its entry of the model cache" in caplog.text
    assert "build the model again" in caplog.text
    assert CacheStore(cache, _LIMIT).entries() == []
    again = build(file_of("mlp"))
    assert not kept(again)
    np.testing.assert_array_equal(results(again, inputs)[0], before)
    wait_for_writers()


def test_a_full_disk_costs_the_entry_only(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankmesh.worker.cache.build_cache.write_entry", full)
    inputs, references = saved("mlp")
    np.testing.assert_allclose(results(build(file_of("mlp")), inputs)[0], references[0], rtol=1e-5)
    wait_for_writers()
    assert "its build is not kept in the model cache: No space left" in caplog.text
    assert f"MiB are free in {cache})" in caplog.text
    assert sorted(path.name for path in cache.iterdir()) == ["entries", "identities"]
    assert CacheStore(cache, _LIMIT).entries() == []


def test_two_builds_at_once_write_one_entry(cache: Path) -> None:
    models: list[Model] = []
    threads = [
        threading.Thread(target=lambda: models.append(build(file_of("mlp")))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_writers()
    assert len(models) == 4
    assert len(CacheStore(cache, _LIMIT).entries()) == 1


def test_the_folder_of_the_configuration_comes_first(tmp_path: Path, cache: Path) -> None:
    section = {"ascend_context": {"model_cache_dir": str(tmp_path / "mine")}}
    build(file_of("mlp"), config_dict=section)
    wait_for_writers()
    assert len(CacheStore(tmp_path / "mine", _LIMIT).entries()) == 1
    assert not cache.exists()


def test_the_mode_is_shown_and_can_be_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANKMESH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forced = {
        mode: {"ascend_context": {"weights_mode": mode}} for mode in ("packed", "private", "live")
    }
    shown = []
    for mode in ("packed", "packed", "private", "live"):
        shown.append(build(file_of("mlp"), config_dict=forced[mode]).get_model_info("weights_mode"))
        wait_for_writers()
    assert shown == ["private", "packed", "private", "live"]
    assert len(CacheStore(tmp_path / "rankmesh" / "models", _LIMIT).entries()) == 1
    with pytest.raises(
        RuntimeError,
        match="weights_mode is 'packed', and only live weights can be shared or updated",
    ):
        build(file_of("mlp"), config_dict=forced["packed"]).rollback()
    assert build(file_of("mlp")).get_model_info("weights_mode") == "private"
    assert Model().get_model_info("weights_mode") == ""


def test_without_a_folder_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RANKMESH_CACHE")
    with caplog.at_level(logging.INFO):
        build(file_of("mlp"))
    assert not [thread for thread in threading.enumerate() if thread.name == "rankmesh-model-cache"]
