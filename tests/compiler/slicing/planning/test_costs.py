"""Costs: what onnxruntime fuses costs nothing, and what a collective takes from it has a price."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from slicing import graph_of

from rankmesh.compiler.slicing.placement.operator_node import Strategy, operator_nodes
from rankmesh.compiler.slicing.placement.placements import (
    SUM,
    WHOLE,
    Placement,
    Windows,
    even_split,
)
from rankmesh.compiler.slicing.planning.costs import (
    HostCosts,
    conversion_seconds,
    costs_of,
    node_seconds,
)
from rankmesh.compiler.source_graph.source_graph import SourceGraph

pytestmark = pytest.mark.pure
COSTS = HostCosts(call=1.0, byte=0.0, flop=0.0, latency=0.0, exchanged_byte=0.0, image_byte=100.0)
SIDE, CHANNELS = 4, 8
BYTES = 4 * CHANNELS * SIDE * SIDE


def graph(
    *nodes: tuple[str, list[str], str], shape: tuple[int, ...], **weights: np.ndarray
) -> SourceGraph:
    """A graph whose input is x and whose output is the last result."""
    made = [helper.make_node(kind, ins, [out], name=out) for kind, ins, out in nodes]
    ends = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape),
        helper.make_empty_tensor_value_info(nodes[-1][2]),
    ]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    found = helper.make_graph(made, "some", ends[:1], ends[1:], held)
    opsets = [helper.make_opsetid("", 21)]
    return graph_of(helper.make_model(found, opset_imports=opsets, ir_version=10))


@pytest.fixture(scope="module")
def residual() -> SourceGraph:
    """Two convolutions with an activation between, whose result is added to the input."""
    weight = np.ones((CHANNELS, CHANNELS, 1, 1), np.float32)
    return graph(
        ("Conv", ["x", "w"], "c"), ("Relu", ["c"], "r"), ("Conv", ["r", "w"], "d"),
        ("Add", ["d", "x"], "a"), ("Relu", ["a"], "y"),
        shape=(1, CHANNELS, SIDE, SIDE), w=weight,
    )  # fmt: skip


def seconds(graph: SourceGraph, name: str, ranks: int, *inputs: Placement) -> float:
    """The time of a node whose output has the placement of its first input."""
    node = operator_nodes(graph, ranks)[name]
    return node_seconds(node, Strategy(inputs, (inputs[0],)), COSTS)


def test_a_rank_that_is_alone_fuses_what_follows_a_convolution(residual: SourceGraph) -> None:
    assert seconds(residual, "r", 1, WHOLE) == seconds(residual, "y", 1, WHOLE) == 0.0
    assert seconds(residual, "a", 1, WHOLE, WHOLE) == 0.0


def test_a_collective_parts_an_activation_from_its_convolution(residual: SourceGraph) -> None:
    channels = even_split(1, CHANNELS, 2)
    assert channels is not None
    assert seconds(residual, "r", 2, channels) == 0.0
    assert seconds(residual, "r", 2, WHOLE) == COSTS.call
    assert seconds(residual, "a", 2, channels, channels) == 0.0
    assert seconds(residual, "a", 2, WHOLE, WHOLE) == COSTS.call
    assert seconds(residual, "y", 2, channels) == 0.0
    assert seconds(residual, "y", 2, WHOLE) == COSTS.call


def test_a_bias_is_added_for_nothing_where_its_product_is_a_term() -> None:
    weights = {"w": np.ones((4, 6), np.float32), "b": np.ones(6, np.float32)}
    found = graph(("MatMul", ["x", "w"], "p"), ("Add", ["b", "p"], "y"), shape=(3, 4), **weights)
    assert seconds(found, "y", 2, SUM, SUM) == 0.0
    assert seconds(found, "y", 2, WHOLE, WHOLE) == COSTS.call
    assert seconds(found, "y", 1, WHOLE, WHOLE) == 0.0


def test_a_value_that_two_nodes_take_is_not_fused() -> None:
    weight = np.ones((CHANNELS, CHANNELS, 1, 1), np.float32)
    nodes = (
        ("Conv", ["x", "w"], "c"),
        ("Relu", ["c"], "r"),
        ("Mul", ["c", "r"], "y"),
    )
    found = graph(*nodes, shape=(1, CHANNELS, SIDE, SIDE), w=weight)
    assert seconds(found, "r", 1, WHOLE) == COSTS.call


@pytest.mark.parametrize(
    ("batch", "channels", "kept"), [(1, 32, True), (1, 40, False), (2, 32, False)]
)
def test_images_whose_channels_fill_the_layout_stay_in_it(
    batch: int, channels: int, kept: bool
) -> None:
    dims = ((batch,), (channels,), (SIDE,), (SIDE,))
    part = even_split(1, channels, 2)
    assert part is not None
    assert (conversion_seconds(dims, 4.0, part, WHOLE, COSTS) == COSTS.call) is kept


def test_sums_rows_and_edges_of_images_stay_in_the_layout() -> None:
    dims = ((2,), (32,), (SIDE,), (SIDE,))
    rows, window = even_split(2, SIDE, 2), Windows(2, (0, 1), (3, 4))
    channels = even_split(1, 32, 2)
    assert rows is not None and channels is not None
    for before, after in ((SUM, WHOLE), (rows, WHOLE), (rows, window)):
        assert conversion_seconds(dims, 4.0, before, after, COSTS) == COSTS.call
    for before, after in ((SUM, channels), (rows, channels), (channels, rows)):
        assert conversion_seconds(dims, 4.0, before, after, COSTS) > COSTS.call


def test_other_collectives_of_images_change_their_layout_twice() -> None:
    dims = ((1,), (CHANNELS,), (SIDE,), (SIDE,))
    channels = even_split(1, CHANNELS, 2)
    assert channels is not None
    reduced = conversion_seconds(dims, 4.0, SUM, WHOLE, COSTS)
    gathered = conversion_seconds(dims, 4.0, channels, WHOLE, COSTS)
    assert reduced == COSTS.call + BYTES * COSTS.image_byte
    assert gathered == COSTS.call + 0.75 * BYTES * COSTS.image_byte  # a half, then the whole
    assert conversion_seconds(dims[1:], 4.0, SUM, WHOLE, COSTS) == COSTS.call  # no image


def test_without_convolutions_no_value_is_an_image(residual: SourceGraph) -> None:
    product = graph(("MatMul", ["x", "w"], "y"), shape=(2, 3, 4, 4), w=np.ones((4, 4), np.float32))
    assert costs_of(product, COSTS).image_byte == 0.0
    assert costs_of(residual, COSTS) == COSTS


def attention_seconds(kind: str, shapes: Mapping[str, tuple[int, ...]], **attributes: int) -> float:
    """The seconds of a whole attention, where an operation costs one; y and k are its outputs."""
    ends = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    given = [name for name in ("y", "k", "v") if name in ends]
    taken = [name for name in ends if name not in given]
    domain = "com.microsoft"
    node = helper.make_node(kind, taken, given, name="a", domain=domain, **attributes)
    found = helper.make_graph([node], "one", [ends[n] for n in taken], [ends[n] for n in given])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    seen = graph_of(helper.make_model(found, opset_imports=opsets, ir_version=10))
    whole = operator_nodes(seen, 1)["a"]
    return node_seconds(whole, whole.whole, HostCosts(call=0.0, byte=0.0, flop=1.0))


def test_each_query_meets_all_keys() -> None:
    shapes = {"q": (1, 3, 8), "keys": (1, 5, 8), "values": (1, 5, 8), "y": (1, 3, 8)}
    assert attention_seconds("MultiHeadAttention", shapes, num_heads=2) == 4 * 3 * 8 * 5


def test_an_attention_may_project_what_it_takes() -> None:
    shapes = {"x": (1, 3, 6), "w": (6, 24), "b": (24,), "y": (1, 3, 8)}
    projected = 2 * 3 * 6 * 24
    assert attention_seconds("Attention", shapes, num_heads=2) == 4 * 3 * 8 * 3 + projected
