"""Heads of keys and values that are fewer than the ranks: each rank has those that it needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from slicing import check_plan, check_strategies, graph_of

from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.emission.verify import verify
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import WHOLE, Placement, Split, Windows
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.needed_conversions import with_conversions
from rankmesh.compiler.slicing.search.choose import choose_plan

DRAW = np.random.default_rng(6)
HEADS, GROUPS, SIZE, LENGTH = 4, 2, 6, 3


def grouped_attention(heads: int = HEADS, groups: int = GROUPS) -> onnx.ModelProto:
    """Query heads that share keys and values, as torch exports them, between two projections."""
    width, each = heads * SIZE, heads // groups
    arrays = {
        "wq": DRAW.standard_normal((width, width)).astype(np.float32),
        "wk": DRAW.standard_normal((width, groups * SIZE)).astype(np.float32),
        "bk": DRAW.standard_normal(groups * SIZE).astype(np.float32),
        "wo": DRAW.standard_normal((width, width)).astype(np.float32),
        "up": DRAW.standard_normal((width, 8 * width)).astype(np.float32),
        "down": DRAW.standard_normal((8 * width, width)).astype(np.float32),
        "by_head": np.array([1, LENGTH, heads, SIZE]),
        "by_group": np.array([1, LENGTH, groups, SIZE]),
        "second": np.array([2]),
        "repeat": np.array([1, groups, each, LENGTH, SIZE]),
        "flat_heads": np.array([1, heads, LENGTH, SIZE]),
        "flat": np.array([1, LENGTH, width]),
    }
    steps: list[tuple[str, list[str], str, dict[str, Sequence[int]]]] = [
        ("MatMul", ["x", "wq"], "q0", {}),
        ("Reshape", ["q0", "by_head"], "q1", {}),
        ("Transpose", ["q1"], "q", {"perm": (0, 2, 1, 3)}),
        ("MatMul", ["x", "wk"], "k0", {}),
        ("Add", ["k0", "bk"], "k1", {}),
        ("Reshape", ["k1", "by_group"], "k2", {}),
        ("Transpose", ["k2"], "k3", {"perm": (0, 2, 1, 3)}),
        ("Unsqueeze", ["k3", "second"], "k4", {}),
        ("Expand", ["k4", "repeat"], "k5", {}),
        ("Reshape", ["k5", "flat_heads"], "k6", {}),
        ("Transpose", ["k6"], "k", {"perm": (0, 1, 3, 2)}),
        ("MatMul", ["q", "k"], "scores", {}),
        ("Softmax", ["scores"], "shares", {}),
        ("MatMul", ["shares", "k6"], "mixed", {}),
        ("Transpose", ["mixed"], "m1", {"perm": (0, 2, 1, 3)}),
        ("Reshape", ["m1", "flat"], "m2", {}),
        ("MatMul", ["m2", "wo"], "o", {}),
        ("MatMul", ["o", "up"], "inner", {}),
        ("Relu", ["inner"], "active", {}),
        ("MatMul", ["active", "down"], "y", {}),
    ]
    nodes = [helper.make_node(kind, i, [o], name=o, **more) for kind, i, o, more in steps]
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, LENGTH, width))
        for name in ("x", "y")
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "attention", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


@pytest.fixture(scope="module")
def feeds() -> dict[str, np.ndarray]:
    return {"x": DRAW.standard_normal((1, LENGTH, HEADS * SIZE)).astype(np.float32)}


def test_every_strategy_of_a_node(feeds: dict[str, np.ndarray]) -> None:
    check_strategies(grouped_attention(), feeds, ranks=(4,), least=20)


@pytest.mark.parametrize(
    ("ranks", "keys"),
    [
        (4, Windows(1, (0, 0, 6, 6), (6, 6, 12, 12))),
        (3, Windows(1, (0, 6, 6), (6, 12, 12))),
    ],
)
def test_no_collective_is_needed_for_shared_heads(
    ranks: int, keys: Windows, feeds: dict[str, np.ndarray]
) -> None:
    pytest.importorskip("highspy", reason="highspy is not installed")
    graph = graph_of(grouped_attention())
    plan = choose_plan(graph, ranks).plan
    assert plan.strategies["k0"].inputs[1] == keys
    check_plan(graph, plan, feeds, run_model(graph.model.clone(), feeds))
    made = [node.op_type for node in local_model(graph, plan, 0).graph if node.domain == "rankmesh"]
    assert made == ["AllReduce", "AllReduce"]


def test_a_rank_whose_query_heads_need_parts_of_two_groups() -> None:
    graph = graph_of(grouped_attention(heads=9, groups=3))
    x = DRAW.standard_normal((1, LENGTH, 9 * SIZE)).astype(np.float32)
    groups, heads = Windows(1, (0, 0, 1, 2), (1, 2, 3, 3)), Split(1, (0, 3, 5, 7, 9))
    plan = SlicePlan(4, {"k6": Strategy((groups, WHOLE), (heads,))})
    check_plan(graph, plan, {"x": x}, run_model(graph.model.clone(), {"x": x}))
    assert verify(graph, plan, block_bytes=1).blocks > 1  # the heads are repeated in another one


@pytest.mark.parametrize(
    "after",
    [WHOLE, Split(2, (0, 2, 9, 12)), Split(2, (0, 4, 8, 12)), Windows(2, (0, 3, 5), (3, 7, 12))],
)
def test_windows_become_other_placements(after: Placement, feeds: dict[str, np.ndarray]) -> None:
    graph = graph_of(grouped_attention())
    windows = Windows(2, (0, 2, 4), (6, 8, 12))
    weight = Windows(1, windows.starts, windows.stops)
    strategies = {"k0": Strategy((WHOLE, weight), (windows,))}
    if after != WHOLE:
        own = after.at(0) if isinstance(after, Split) else Windows(0, after.starts, after.stops)
        strategies["k1"] = Strategy((after, own), (after,))
    plan = with_conversions(graph, strategies, 3)
    check_plan(graph, plan, feeds, run_model(graph.model.clone(), feeds))
