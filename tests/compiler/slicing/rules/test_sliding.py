"""Convolutions and pooling by rows of the image give what the whole node gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from slicing import check_plan, graph_of

from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.placement.placements import WHOLE, Split, Windows
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import Collected, HostCosts, collectives
from rankmesh.compiler.slicing.planning.needed_conversions import with_conversions
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.search.choose import choose_plan
from rankmesh.compiler.source_graph.source_graph import SourceGraph

DRAW = np.random.default_rng(7)


def after_relu(
    operator: str, shape: tuple[int | str, ...], weight: tuple[int, ...] = (), **attributes: object
) -> onnx.ModelProto:
    """A model of a Relu and the node `node`."""
    names = ["h", "w"] if weight else ["h"]
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node(operator, names, ["y"], name="node", **attributes),
    ]
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    weights = [numpy_helper.from_array(normal(*weight), "w")] if weight else []
    results = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "after_relu", given, results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def check_rows(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], least: int = 1
) -> list[SlicePlan]:
    """Run `node` by rows behind each strategy of `relu`, on 2, 3 and 4 ranks; the plans."""
    graph = graph_of(model)
    expected = run_model(graph.model.clone(), feeds)
    plans = [plan for ranks in (2, 3, 4) for plan in plans_by_rows(graph, ranks)]
    for plan in plans:
        check_plan(graph, plan, feeds, expected)
        check_prices(graph, plan)
    assert len(plans) >= least
    return plans


def check_prices(graph: SourceGraph, plan: SlicePlan) -> None:
    """The collectives of a plan are those that are priced."""
    priced = Counter(
        call.kind
        for one in plan.conversions
        for call in collectives(graph.dims[one.value], 4, one.before, one.after, plan.ranks)
    )
    for rank in range(plan.ranks):
        nodes = local_model(graph, plan, rank).graph
        assert Counter(node.op_type for node in nodes if node.domain == "rankmesh") == priced


def plans_by_rows(graph: SourceGraph, ranks: int) -> list[SlicePlan]:
    found = propagate(graph, ranks).strategies
    by_rows = [
        one
        for one in found["node"]
        if isinstance(one.outputs[0], Split) and one.outputs[0].axis >= 2
    ]
    return [
        with_conversions(graph, {"relu": before, "node": one}, ranks)
        for one in by_rows
        for before in found["relu"]
    ]


def drawn_convolution() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A convolution of random sizes that has rows for four ranks."""
    axes = int(DRAW.integers(1, 3))
    while True:
        kernel = [int(DRAW.choice([1, 3, 5, 7])) for _ in range(axes)]
        strides = [int(DRAW.integers(1, 4)) for _ in range(axes)]
        dilations = [int(DRAW.integers(1, 3)) for _ in range(axes)]
        pads = [int(DRAW.integers(0, 4)) for _ in range(2 * axes)]
        kind = str(DRAW.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        if kind.startswith("SAME"):  # onnxruntime takes no dilations with it
            dilations = [1] * axes
        sizes = sorted((int(DRAW.integers(14, 33)) for _ in range(axes)), reverse=True)
        padded = sizes[0] + (pads[0] + pads[axes] if kind == "NOTSET" else 0)
        rows = (padded - dilations[0] * (kernel[0] - 1) - 1) // strides[0] + 1
        least = min(s - d * (k - 1) for s, d, k in zip(sizes, dilations, kernel, strict=True))
        if rows >= 4 and least > 0:
            break
    more: dict[str, object] = {"pads": pads} if kind == "NOTSET" else {"auto_pad": kind}
    batch, group = int(DRAW.integers(1, 3)), int(DRAW.integers(1, 3))
    model = after_relu(
        "Conv",
        (batch, 2 * group, *sizes),
        (4, 2, *kernel),
        strides=strides,
        dilations=dilations,
        group=group,
        **more,
    )
    return model, {"x": normal(batch, 2 * group, *sizes)}


@pytest.mark.parametrize("seed", range(10))
def test_convolutions(seed: int) -> None:
    global DRAW
    DRAW = np.random.default_rng(seed)
    model, feeds = drawn_convolution()
    check_rows(model, feeds)


def test_a_convolution_with_open_batch() -> None:
    model = after_relu("Conv", ("batch", 2, 13), (3, 2, 5), pads=[2, 2])
    check_rows(model, {"x": normal(2, 2, 13)}, least=7)


def test_a_kernel_no_longer_than_its_stride_needs_no_edges() -> None:
    model = after_relu("Conv", (1, 3, 16, 16), (4, 3, 1, 1), strides=[2, 2])
    plans = check_rows(model, {"x": normal(1, 3, 16, 16)})
    assert all(isinstance(plan.strategies["node"].inputs[0], Split) for plan in plans)


def test_edges_may_be_wider_than_the_parts_of_neighbours() -> None:
    model = after_relu("Conv", (1, 1, 8), (1, 1, 7), pads=[3, 3])
    plans = check_rows(model, {"x": normal(1, 1, 8)})
    windows = [plan.strategies["node"].inputs[0] for plan in plans]
    assert Windows(2, (0, 0, 1, 3), (5, 7, 8, 8)) in windows


def test_only_edges_are_exchanged() -> None:
    dims = ((2,), (3,), (16,), (10,))
    rows, windows = Split(2, (0, 8, 16)), Windows(2, (0, 7), (10, 16))
    # rank 1 gives two rows, rank 0 one; each sends as much as the widest
    assert list(collectives(dims, 4, rows, windows, 2)) == [
        Collected("AllGather", 4 * 2 * 3 * 2 * 10)
    ]


def test_where_memory_does_not_count_rows_are_split() -> None:
    nodes = [
        helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"conv{i}", pads=[1, 1, 1, 1])
        for i in range(5)
    ]
    shape = (1, 16, 64, 64)
    ends = [helper.make_tensor_value_info(name, 1, shape) for name in ("x0", "x5")]
    weights = [numpy_helper.from_array(normal(16, 16, 3, 3), f"w{i}") for i in range(5)]
    graph = helper.make_graph(nodes, "five", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 21)]
    source = graph_of(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    slow = HostCosts(exchanged_byte=1e-9)
    free = choose_plan(source, 2, memory=1 << 30, costs=slow).plan.strategies
    assert sum(isinstance(one.inputs[0], Windows) for one in free.values()) >= 3
    tight = choose_plan(source, 2).plan.strategies
    assert all(one.inputs[1] != WHOLE for one in tight.values())


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("MaxPool", {"ceil_mode": 1, "strides": [2, 2]}),
        ("MaxPool", {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
        ("AveragePool", {"pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"pads": [1, 1, 1, 1], "ceil_mode": 1, "strides": [2, 2]}),
        ("LpPool", {"pads": [1, 0, 1, 0]}),
    ],
)
def test_pooling(operator: str, attributes: dict[str, object]) -> None:
    model = after_relu(operator, (2, 2, 14, 13), kernel_shape=[3, 3], **attributes)
    check_rows(model, {"x": normal(2, 2, 14, 13)})


def test_averages_over_padding_of_unequal_weight_are_whole() -> None:
    more = {"ceil_mode": 1, "count_include_pad": 1, "strides": [2]}
    model = after_relu("AveragePool", (1, 2, 14), kernel_shape=[3], pads=[1, 1], **more)
    check_rows(model, {"x": normal(1, 2, 14)}, least=0)
