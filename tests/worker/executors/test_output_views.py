"""Outputs that are a product in another shape: computed in their own memory, only where that is
sure to be right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import model, node

from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.views import OutputView, output_views, without_copies
from rankmesh.worker.partition.plan import Segment

RANDOM = np.random.default_rng(3)
WEIGHT, BIAS = RANDOM.standard_normal((5, 4), np.float32), RANDOM.standard_normal(5, np.float32)
X = RANDOM.standard_normal((2, 3, 4), np.float32)
EXPECTED = X @ WEIGHT.T + BIAS


def dense(
    declared: Any = (np.float32, [2, 3, 5]),
    target: Any = (2, 3, 5),
    more: Any = (),
    outputs: Any = None,
) -> Segment:
    nodes = [
        node("Reshape", "x rows", "flat"),
        node("Gemm", "flat w c", "product", transB=1),
        node("Reshape", "product target", "y"),
        *more,
    ]
    kinds = {"y": declared, **(outputs or {})}
    constants = {"rows": np.array([-1, 4]), "w": WEIGHT, "c": BIAS, "target": np.array(target)}
    return Segment(model(nodes, {"x": [2, 3, 4]}, kinds, constants=constants), ("x",), tuple(kinds))


def test_view_of_the_product() -> None:
    segment = dense()
    assert output_views(segment.model) == {"y": OutputView("product", (6, 5), (2, 3, 5))}
    made = without_copies(segment.model)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm"]
    assert [n.op_type for n in segment.model.graph.node] == [
        "Reshape",
        "Gemm",
        "Reshape",
    ]  # the plan's stays


@pytest.mark.parametrize("given", [True, False])
def test_result_has_the_output_s_shape(given: bool) -> None:
    prepared = OnnxRuntime().prepare(dense(), "/")
    for factor in (1, 2):
        out = np.zeros((2, 3, 5), np.float32) if given else None
        (result,) = prepared.run([X * factor], [out])
        assert result.shape == (2, 3, 5) and (out is None or result is out)
        np.testing.assert_allclose(result, X * factor @ WEIGHT.T + BIAS, rtol=1e-5, atol=1e-6)


def test_memory_of_another_size_is_refused() -> None:
    prepared = OnnxRuntime().prepare(dense(), "/")
    with pytest.raises(ValueError, match="reshape"):
        prepared.run([X], [np.zeros((2, 3, 4), np.float32)])


def test_saved_segment_gives_the_same(tmp_path: Path) -> None:
    segment, place = dense(), str(tmp_path / "saved.onnx")
    OnnxRuntime().save(segment, "/", place)
    (result,) = OnnxRuntime().load(segment, place).run([X], [np.zeros((2, 3, 5), np.float32)])
    np.testing.assert_allclose(result, EXPECTED, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "segment",
    [
        dense(declared=[2, 3, None]),
        dense(declared=None),
        dense(target=(2, -1, 5)),
        dense(declared=[3, 2, 5]),
        dense(more=[node("Relu", "product", "z")], outputs={"z": [6, 5]}),
        dense(outputs={"product": [6, 5]}),
        dense(more=[node("Relu", "y", "z")], outputs={"z": [2, 3, 5]}),
    ],
    ids=[
        "open",
        "undeclared",
        "inferred",
        "contradicted",
        "product used",
        "product is an output",
        "output used",
    ],
)
def test_no_view_where_the_reshape_must_stay(segment: Segment) -> None:
    assert not output_views(segment.model) and without_copies(segment.model) is segment.model
