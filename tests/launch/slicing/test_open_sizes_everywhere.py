"""A decoder whose size of heads is left open: it is inspected, run, sliced, and its shards run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import processes
import pytest
from decoders import grouped_decoder

import rankmesh

NODE = "node attention (GroupQueryAttention)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("decoder") / "model.onnx"
    onnx.save(grouped_decoder(True), found)
    return found


def test_a_run_without_inputs_takes_the_right_size_and_says_so(path: Path) -> None:
    done = processes.rankmesh("run", path, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["notes"] == [f"dimension kv_cache_dim is 8: {NODE} takes no other size"]
    shapes = {one["name"]: one["shape"] for one in said["ranks"][0]["outputs"]}
    assert shapes == {"y": [1, 1, 16], "k1": [1, 1, 2, 8], "v1": [1, 1, 2, 8]}


def test_inspect_shows_the_right_size(path: Path) -> None:
    done = processes.rankmesh("inspect", path)
    assert done.returncode == 0, done.stderr
    assert "input: k float32[-1, 1, -1, 8]" in done.stdout
    assert f"dimension kv_cache_dim: 8, as {NODE} takes no other size" in done.stdout


def test_a_wrong_size_is_refused(path: Path, tmp_path: Path) -> None:
    done = processes.rankmesh(
        "slice", path, "--ranks", 2, "--sizes", "kv_cache_dim=4", "-o", tmp_path / "shards"
    )
    assert done.returncode == 3
    assert f"kv_cache_dim=4: expected 8, as {NODE} takes no other size" in done.stderr


def test_shards_compute_what_the_model_does_in_each_step(path: Path, tmp_path: Path) -> None:
    """A prompt with an empty cache, then steps that grow it."""
    done = processes.rankmesh("slice", path, "--ranks", 2, "-o", tmp_path / "shards")
    assert done.returncode == 0, done.stderr
    assert f"dimension kv_cache_dim is 8: {NODE} takes no other size" in done.stdout
    shards = str(tmp_path / "shards" / "model_rank{rank}.onnx")
    done = processes.rankmesh("run", shards)
    assert done.returncode == 0, done.stderr
    whole = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1)
    with rankmesh.Orchestrator(shards) as orchestrator:
        cache = [np.zeros((2, 1, 0, 8), np.float32)] * 2
        for length, new in ((5, 5), (6, 1), (7, 1)):
            x = draw.standard_normal((2, new, 16)).astype(np.float32)
            mask = np.ones((2, length), np.int64)
            feeds = {"x": x, "mask": mask, "k": cache[0], "v": cache[1]}
            wanted = dict(zip(("y", "k1", "v1"), whole.run(None, feeds), strict=True))
            got = orchestrator.predict(feeds)
            for name, array in wanted.items():
                np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)
            cache = [got["k1"], got["v1"]]
