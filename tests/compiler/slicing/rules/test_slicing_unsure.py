"""Axes whose size depends on the data: no rule takes one for an axis that is broadcast."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from slicing import graph_of

from rankmesh.compiler.slicing.placement.placements import Split
from rankmesh.compiler.slicing.planning.propagate import propagate

pytestmark = pytest.mark.pure


def test_rows_that_a_mask_picks_are_not_broadcast() -> None:
    weights = {
        "first": np.array([0]),
        "last": np.array([2]),
        "shape": np.array([6, 4]),
        "w": np.ones((6, 1), np.float32),
        "m": np.ones((6, 1, 5), np.float32),
    }
    nodes = [
        helper.make_node("NonZero", ["flags"], ["places"], name="places"),
        helper.make_node("Squeeze", ["places", "first"], ["rows"], name="rows"),
        helper.make_node("Gather", ["x", "rows"], ["chosen"], name="chosen"),
        helper.make_node("Mul", ["chosen", "w"], ["product"], name="product"),
        helper.make_node("Expand", ["chosen", "shape"], ["expanded"], name="expanded"),
        helper.make_node("Unsqueeze", ["chosen", "last"], ["columns"], name="columns"),
        helper.make_node("MatMul", ["columns", "m"], ["matrices"], name="matrices"),
    ]
    ends = {"product": (6, 4), "expanded": (6, 4), "matrices": (6, 4, 5)}  # as the file says
    graph = helper.make_graph(
        nodes,
        "picked",
        [
            helper.make_tensor_value_info("flags", TensorProto.FLOAT, (6,)),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (6, 4)),
        ],
        [helper.make_tensor_value_info(*one) for one in _typed(ends)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    found = propagate(graph_of(model), 2)
    for name in ends:
        splits = [
            one.outputs[0] for one in found.strategies[name] if isinstance(one.outputs[0], Split)
        ]
        assert splits and all(one.axis > 0 for one in splits), name


def _typed(ends: dict[str, tuple[int, ...]]) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(name, TensorProto.FLOAT, shape) for name, shape in ends.items()]
