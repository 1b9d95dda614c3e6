"""Sums of float16 whose terms are infinite, though the sum is not: ranks give what one device does.

Half of what is summed is large, the other half nearly as large with the other sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from slicing import graph_of, one_node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.slicing.emission import localise
from rankmesh.compiler.slicing.emission.feeds import random_feeds
from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.emission.trial import relative_error, run_in_lockstep, run_model
from rankmesh.compiler.slicing.emission.verify import verify
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE, Split
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.slicing.planning.traffic import StageTraffic
from rankmesh.compiler.source_graph.source_graph import SourceGraph

HALF = np.float16
TOLERANCE = 2e-3
"""One rounding of float16, and another."""


def halves(*shape: int, axis: int = 0) -> np.ndarray:
    """Numbers whose first half along an axis is 2000, the second one -1800."""
    size = shape[axis]
    column = np.where(np.arange(size) < size // 2, 2000, -1800).astype(HALF)
    return np.broadcast_to(np.moveaxis(column.reshape(-1, *[1] * (len(shape) - 1)), 0, axis), shape)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, HALF)


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(HALF)


NODES = {
    "MatMul": one_node("MatMul", [ones(2, 128), halves(128, 8)], [1]),
    "Gemm": one_node("Gemm", [ones(2, 128), halves(128, 8), array(8)], [1, 2]),
    "Gemm, transposed": one_node(
        "Gemm", [ones(2, 128), halves(8, 128, axis=1)], [1], transB=1, alpha=0.75
    ),
    "Einsum": one_node("Einsum", [ones(2, 128), halves(128, 8)], [1], equation="ab,bc->ac"),
    "Conv": one_node("Conv", [ones(1, 128, 4), halves(8, 128, 1, axis=1), array(8)], [1, 2]),
    "ReduceSum": one_node("ReduceSum", [halves(2, 128, axis=1), np.array([1])], [1]),
    "MatMulNBits": one_node(
        "MatMulNBits",
        [
            ones(2, 128),
            np.full((8, 4, 16), 255, np.uint8),  # 15, which stands for 7
            np.tile(np.array([300, 300, -270, -270], HALF), (8, 1)),
        ],
        [1, 2],
        domain="com.microsoft",
        K=128,
        N=8,
        bits=4,
        block_size=32,
    ),
    "ReduceMean": one_node("ReduceMean", [halves(2, 128, axis=1) * 32, np.array([1])], [1]),
}


@pytest.mark.parametrize("name", NODES)
def test_every_strategy_of_a_sum_gives_what_one_device_gives(name: str) -> None:
    graph = graph_of(NODES[name][0])
    feeds = NODES[name][1]
    expected = run_model(graph.model.clone(), feeds)
    assert all(np.isfinite(one).all() for one in expected)
    summed = 0
    for strategy in propagate(graph, 2).strategies["node"]:
        plan = SlicePlan(2, {"node": strategy})
        for got in run_in_lockstep(graph, plan, feeds):
            assert relative_error(got, expected) <= TOLERANCE, strategy
        summed += strategy.outputs[0] == SUM
    assert summed


def chain(nodes: Sequence[onnx.NodeProto], weights: dict[str, np.ndarray]) -> SourceGraph:
    """The graph of nodes from x of float16, and as many columns as there are ones, to y."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n", 128])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    tensors = [numpy_helper.from_array(one, name) for name, one in weights.items()]
    graph = helper.make_graph(list(nodes), "chain", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 21)]
    return graph_of(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def reported() -> SourceGraph:
    """Two products with a Relu between them, as in the report of the fault."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h0"], "up"),
        helper.make_node("Relu", ["h0"], ["h"], "act"),
        helper.make_node("MatMul", ["h", "w2"], ["y"], "down"),
    ]
    return chain(nodes, {"w1": np.eye(128, dtype=HALF), "w2": halves(128, 8)})


def split_rows() -> SlicePlan:
    columns, rows = Split(1, (0, 64, 128)), Split(0, (0, 64, 128))
    return SlicePlan(
        2,
        {
            "up": Strategy((WHOLE, columns), (columns,)),
            "act": Strategy((columns,), (columns,)),
            "down": Strategy((columns, rows), (SUM,)),
        },
    )


def test_terms_that_are_infinite_in_float16_add_up() -> None:
    for (got,) in run_in_lockstep(reported(), split_rows(), {"x": ones(2, 128)}):
        assert got.dtype == HALF and (got == 12800).all()


def test_the_proof_finds_terms_of_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual inputs do not: inputs a hundred times as large make NaN of infinite terms."""
    proof = verify(reported(), split_rows())
    assert proof.magnitudes == [100, 10000] and "also 100 and 10,000 times as large" in str(proof)
    monkeypatch.setattr(localise, "held_dtype", lambda value, placement: value.dtype)
    with pytest.raises(ModelError, match="'y' of rank 0 has .*, for inputs 100 times as large"):
        verify(reported(), split_rows())


def linear() -> SourceGraph:
    """Operators that take terms and give terms, behind a product whose terms are infinite."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "down"),
        helper.make_node("Cast", ["a"], ["b"], "wide", to=TensorProto.FLOAT),
        helper.make_node("Cast", ["b"], ["c"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["c", "half"], ["d"], "scale"),
        helper.make_node("Add", ["d", "bias"], ["e"], "bias"),
        helper.make_node("Neg", ["e"], ["f"], "minus"),
        helper.make_node("Reshape", ["f", "shape"], ["g"], "view"),
        helper.make_node("Transpose", ["g"], ["h"], "turn", perm=[0, 2, 1]),
        helper.make_node("Sub", ["h", "x8"], ["y"], "less"),
    ]
    weights = {"w": halves(128, 8), "half": np.array(0.5, HALF), "bias": array(8)}
    weights |= {"shape": np.array([-1, 2, 4]), "x8": array(1, 4, 2)}
    return chain(nodes, weights)


def test_terms_stay_wide_through_all_operators_that_take_them() -> None:
    graph, ranks = linear(), 2
    feeds = {"x": ones(3, 128)}
    expected = run_model(graph.model.clone(), feeds)
    plans = [random_plan(graph, propagate(graph, ranks), ranks, seed) for seed in range(40)]
    passed = [sum(SUM in one.outputs for one in plan.strategies.values()) for plan in plans]
    assert max(passed) > 3
    for plan in plans:
        for got in run_in_lockstep(graph, plan, feeds):
            assert relative_error(got, expected) <= TOLERANCE, plan.strategies


def operands(graph: SourceGraph, plan: SlicePlan) -> list[str]:
    """The dtypes of what a rank adds up with others."""
    return [
        str(node.inputs[0].dtype)
        for node in local_model(graph, plan, 0).graph
        if node.op_type == "AllReduce"
    ]


def predicted(graph: SourceGraph, plan: SlicePlan) -> int:
    """The predicted bytes of all collectives of a rank."""
    traffic = StageTraffic(graph, plan, stage_layout(graph, plan), HostCosts())
    return sum(one.nbytes for one in traffic.of_stage(0))


def test_the_plan_knows_the_bytes_of_wide_sums() -> None:
    graph, plan = reported(), split_rows()
    assert operands(graph, plan) == ["FLOAT"]
    assert predicted(graph, plan) == graph.sizes["n"] * 8 * 4


def test_rows_of_a_table_are_exact_and_cost_no_more() -> None:
    """Only one rank has a row, the others add zeros."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["a"], "rows"),
        helper.make_node("Reshape", ["a", "shape"], ["y"], "view"),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    weights = {"table": halves(64, 8), "shape": np.array([6, 8])}
    tensors = [numpy_helper.from_array(one, name) for name, one in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "rows", [ids], [y], tensors),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    graph = graph_of(model)
    rows = Strategy((Split(0, (0, 32, 64)), WHOLE), (SUM,))
    plan = SlicePlan(2, {"rows": rows, "view": Strategy((SUM, WHOLE), (SUM,))})
    assert operands(graph, plan) == ["FLOAT16"]
    assert predicted(graph, plan) == 6 * 8 * 2
    feeds = random_feeds(graph, {})
    for got in run_in_lockstep(graph, plan, feeds):
        assert relative_error(got, run_model(graph.model.clone(), feeds)) == 0


def test_a_model_that_rounding_alone_changes_is_not_refused_for_large_inputs() -> None:
    """A sine of large sums is another one for each order of adding them up."""
    nodes = [
        helper.make_node("Cast", ["x"], ["x32"], "wide", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x32", "w"], ["a"], "down"),
        helper.make_node("Sin", ["a"], ["b"], "sine"),
        helper.make_node("Cast", ["b"], ["y"], "narrow", to=TensorProto.FLOAT16),
    ]
    weight = np.random.default_rng(0).standard_normal((128, 8)).astype(np.float32)
    graph = chain(nodes, {"w": weight * 100})
    down = Strategy((Split(1, (0, 64, 128)), Split(0, (0, 64, 128))), (SUM,))
    proof = verify(graph, SlicePlan(2, {"down": down}))
    assert "one rounding changes value 'b' as much as slicing does" in str(proof)
