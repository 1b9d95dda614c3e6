"""Updates of a sliced model: whole weights by the whole model's names, which each rank has parts
of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from safetensors.numpy import save_file
from sliced import example

import rankmesh
from rankmesh import Orchestrator

IDS = np.arange(12).reshape(1, 12)
NAMES = (
    "embedding",
    "layers.0.up.weight",
    "layers.1.attention.query.weight",
    "norm.weight",
    "logits.weight",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    example().main(path)
    return path


@pytest.fixture(scope="module", params=["tensor=2", "tensor=2,pipeline=2"])
def served(model: Path, request: pytest.FixtureRequest) -> Iterator[Orchestrator]:
    folder = str(model.parent / "kept")
    with Orchestrator(str(model), slice=request.param, slice_dir=folder, threads=1) as one:
        yield one


def with_weights(model: Path, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """What onnxruntime computes with other weights in the whole model."""
    changed = onnx.load(model)
    for tensor in changed.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    session = onnxruntime.InferenceSession(changed.SerializeToString())
    found: np.ndarray = session.run(None, {"ids": IDS})[0]
    return found


def require(served: Orchestrator, expected: np.ndarray) -> None:
    found = served.predict({"ids": IDS})["logits"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_each_rank_gets_its_part(served: Orchestrator, model: Path) -> None:
    weights = {one.name: numpy_helper.to_array(one) for one in onnx.load(model).graph.initializer}
    random = np.random.default_rng(1)
    new = {name: random.standard_normal(weights[name].shape, np.float32) / 8 for name in NAMES}
    expected = with_weights(model, new)
    served.update_weights(new)
    require(served, expected)
    served.rollback()
    require(served, with_weights(model, {}))
    served.update_weights({name: new[name] - weights[name] for name in NAMES}, delta=True)
    require(served, expected)
    file = str(model.parent / "new")
    np.savez(f"{file}.npz", **{name: weights[name] for name in NAMES})
    served.update_weights(f"{file}.npz")
    require(served, with_weights(model, {}))
    save_file(new, f"{file}.safetensors")
    served.update_weights(f"{file}.safetensors")
    require(served, expected)
    served.update_weights({"embedding": weights["embedding"]})  # in a pipeline the first stage's
    require(served, with_weights(model, {name: new[name] for name in NAMES[1:]}))


def test_wrong_weights_change_nothing(served: Orchestrator, model: Path) -> None:
    before = served.predict({"ids": IDS})["logits"]
    for given, words in (
        ({"layers.0.up": np.ones(1)}, "no weight 'layers.0.up'; near: layers.0.up.weight"),
        ({NAMES[1]: np.ones((64, 128), np.float32)}, r"\[64, 128\], expected \[64, 256\]"),
        ({NAMES[1]: np.ones((64, 256), np.int64)}, "layers.0.up.weight"),
    ):
        with pytest.raises(rankmesh.InputError, match=words):
            served.update_weights(given)
    np.savez(model.parent / "wrong.npz", other=np.ones(3))
    with pytest.raises(rankmesh.InputError, match="no rank has a slice of a weight"):
        served.update_weights(os.fspath(model.parent / "wrong.npz"))
    np.testing.assert_array_equal(served.predict({"ids": IDS})["logits"], before)
