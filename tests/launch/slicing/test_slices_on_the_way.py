"""Slices on the way: run --slice and an orchestrator share the shards that the cache keeps."""

import os
import subprocess

import numpy as np
import processes
import pytest
from encrypted import KEY, encrypt_file
from mindir_models import DATA
from sliced import example

import rankmesh
from rankmesh.comm.processes.sliced_model import hold, one_replica, parse_mesh
from rankmesh.worker.cache.store import CacheStore


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    example().main(path)
    return path


def run(*arguments, **environment):
    return processes.rankmesh("run", *arguments, **environment)


@pytest.mark.slow
def test_a_run_keeps_the_shards_and_an_orchestrator_finds_them(model, tmp_path):
    cache, case = tmp_path / "cache", model.with_suffix(".npz")
    options = ("--slice", "tensor=2", "--inputs", case, "--expect", case)
    done = run(model, *options, RANKMESH_CACHE=str(cache))
    assert done.returncode == 0, done.stdout + done.stderr
    kept = list(cache.glob("entries/*/plan.json"))
    given = np.load(case)
    with rankmesh.Orchestrator(
        str(model), slice="tensor=2,data=2", cache=str(cache)
    ) as orchestrator:
        outputs = orchestrator.predict({"ids": given["ids"]})
        assert len(orchestrator.status().ranks) == 4
    np.testing.assert_allclose(outputs["logits"], given["logits"], rtol=0, atol=1e-5)
    assert len(kept) == len(list(cache.glob("entries/*/plan.json"))) == 1


def test_without_a_cache_a_folder_is_asked_for(model, tmp_path):
    done = run(model, "--slice", "tensor=2", RANKMESH_CACHE="off")
    assert done.returncode == 2
    assert "the model cache is off. Name a folder for the shards: --slice-dir" in done.stderr
    done = run(model, "--slice", "tensor=2", "--slice-dir", tmp_path, RANKMESH_CACHE="off")
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("model-*")
    assert {"model_rank0.onnx", "model_rank1.onnx", "plan.json"} <= {*os.listdir(folder)}


@pytest.mark.pure
def test_texts_of_slices():
    assert parse_mesh("tensor=2", None) == (2, 1, 1)
    assert parse_mesh("pipeline=2, tensor=3,data=2", 6) == (6, 2, 2)
    assert one_replica("tensor=2,data=1", 2) == (2, 1)
    assert one_replica("auto", 3) == (3, 1)
    with pytest.raises(rankmesh.UsageError, match="auto needs the number of ranks: --ranks N"):
        one_replica("auto", None)
    with pytest.raises(rankmesh.UsageError, match="data=2 makes replicas"):
        one_replica("tensor=2,data=2", None)
    with pytest.raises(rankmesh.UsageError, match="makes 2 ranks, and 4 are asked for"):
        parse_mesh("tensor=2", 4)
    for wrong in ("", "tensor", "tensor=0", "data", "tensor=2;pipeline=2", "tensor=2,tensor=3"):
        with pytest.raises(rankmesh.UsageError, match="expected tensor=N, pipeline=K"):
            parse_mesh(wrong, None)


def add(store, name):
    store.add(name, "m", lambda folder: folder.joinpath("w").write_bytes(bytes(1000)) and None)


@pytest.mark.pure
def test_shards_in_use_are_not_evicted(tmp_path):
    store = CacheStore(tmp_path / "cache", 1500)
    add(store, "first")
    lock = hold(str(store.find("first")))
    add(store, "second")
    assert store.find("first") is not None
    os.close(lock)
    add(store, "third")
    assert store.find("first") is None and store.find("third") is not None


def test_encrypted_models_are_refused_everywhere(tmp_path, monkeypatch):
    plain = DATA / "dist_tp_mlp_2" / "dist_tp_mlp_2_rank0.mindir"
    model = str(encrypt_file(plain, tmp_path / "m.mindir"))
    wanted = "shards .*would lie on a disk as plain text"
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(rankmesh.ModelError, match=f"is encrypted. .*{wanted}"):
        rankmesh.plan_slices(model, 2)
    with pytest.raises(rankmesh.ModelError, match=f"is encrypted. .*{wanted}"):
        rankmesh.Orchestrator(model, slice="tensor=2")
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    with pytest.raises(rankmesh.UsageError, match=f"a key is given .*{wanted}"):
        rankmesh.Orchestrator(model, slice="tensor=2")
    done = run(model, "--slice", "tensor=2")
    assert done.returncode == 2 and "--slice is for plain models" in done.stderr
    assert not [names for _, _, names in os.walk(tmp_path / "cache") if names]


def test_the_caller_of_an_orchestrator_imports_no_onnx(model, tmp_path):
    text = (
        "import sys, rankmesh\n"
        f"with rankmesh.Orchestrator({str(model)!r}, slice='tensor=2') as one: pass\n"
        "print([name for name in ('onnx', 'onnx_ir', 'onnxruntime') if name in sys.modules])\n"
    )
    cache = {**os.environ, "RANKMESH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [*processes.COMMAND[:1], "-c", text], capture_output=True, text=True, timeout=110, env=cache
    )
    assert done.stdout == "[]\n", done.stderr


def test_mindir_models_are_sliced_too(tmp_path):
    """A split file, which has its weights in a folder; one with a state is refused."""
    folder = DATA / "split_mlp"
    case = ("--inputs", folder / "split_mlp.npz", "--expect", folder / "split_mlp.npz")
    options = ("--slice", "tensor=2", "--slice-dir", tmp_path)
    done = run(folder / "split_mlp.mindir", *options, *case)
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.glob("split_mlp-*")
    assert "split_mlp_rank1.onnx" in os.listdir(kept)
    with pytest.raises(rankmesh.ModelError, match="assigns to the parameter 'n', whose value last"):
        rankmesh.plan_slices(str(DATA / "state_counter" / "state_counter.mindir"), 2)
    sliced = str(DATA / "dist_tp_mlp_2" / "dist_tp_mlp_2_rank{rank}.mindir")
    with pytest.raises(rankmesh.UsageError, match="names 2 shards, which are sliced already"):
        rankmesh.Orchestrator(sliced, slice="tensor=2")
