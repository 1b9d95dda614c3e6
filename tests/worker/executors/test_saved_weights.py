"""Weights of saved models: where they lie, and that they can be computed with."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from mindir_models import built, saved
from onnx_models import model, node
from primitives import same

from rankmesh.compiler.onnx_graph.external import entries_of
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.saved_weights import align, external_tensors, pieces
from rankmesh.worker.partition.plan import Segment

SIZES = [
    (84, 10),
    (120, 84),
    (7, 300),
    (64, 64),
]  # the first three end between multiples of 64 bytes


def products() -> Segment:
    """Products with weights of odd sizes."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal(size, np.float32) for i, size in enumerate(SIZES)}
    inputs = {f"x{i}": [3, rows] for i, (rows, _) in enumerate(SIZES)}
    outputs = {f"y{i}": [3, columns] for i, (_, columns) in enumerate(SIZES)}
    nodes = [node("MatMul", f"x{i} w{i}", f"y{i}") for i in range(len(SIZES))]
    return Segment(model(nodes, inputs, outputs, constants=weights), tuple(inputs), tuple(outputs))


def test_everything_is_aligned_and_computes_the_same(tmp_path: Path) -> None:
    segment, executor, place = products(), OnnxRuntime(), str(tmp_path / "s.onnx")
    executor.save(segment, "/", place)
    offsets = [
        offset
        for tensor in external_tensors(onnx.load(place, load_external_data=False))
        for offset, _ in pieces(entries_of(tensor))
    ]
    assert len(offsets) >= 2 * len(SIZES)
    assert all(offset % 64 == 0 for offset in offsets)
    arrays = [np.full((3, rows), 1 / 3, np.float32) for rows, _ in SIZES]
    results = [
        list(runnable.run(arrays, [None] * len(SIZES)))
        for runnable in (executor.prepare(segment, "/"), executor.load(segment, place))
    ]
    for got, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_is_aligned_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "s.onnx"
    OnnxRuntime().save(products(), "/", str(place))
    before = {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.iterdir()
    }
    align(str(place))
    assert {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.iterdir()
    } == before


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "s.onnx"
    OnnxRuntime().save(products(), "/", str(place))
    proto = onnx.load(place, load_external_data=False)
    for tensor in external_tensors(proto):
        for entry in tensor.external_data:
            if entry.key == "offset":
                entry.value = str(int(entry.value) + 8)
    place.write_bytes(proto.SerializeToString())
    (tmp_path / "s.onnx.weights").write_bytes(b"\0" * 1000)
    with pytest.raises(OSError, match="ends before"):
        align(str(place))


@pytest.mark.parametrize("name", ["lenet5", "mobilenetv2", "lstm"])
def test_models_from_the_model_cache(tmp_path: Path, name: str) -> None:
    """LeNet-5's last layer, [10, 84], ended the process."""
    inputs, references = saved(name)
    for _ in range(2):
        model = built(name, config_dict={"common_context": {"model_cache_dir": str(tmp_path)}})
        for thread in threading.enumerate():
            if thread.name == "rankmesh-model-cache":
                thread.join(30)
        for got, reference in zip(model.predict(inputs), references, strict=True):
            same(got.get_data_to_numpy(), reference)
