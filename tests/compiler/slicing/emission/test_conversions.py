"""Conversions: a part is brought to the front by a Reshape where that moves nothing; windows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from slicing import graph_of, one_node

from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.trial import run_in_lockstep
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import Windows, even_split
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.needed_conversions import with_conversions
from rankmesh.compiler.source_graph.source_graph import SourceGraph


def kinds(graph: SourceGraph, plan: SlicePlan) -> list[str]:
    """The operators of rank 0, collectives among them."""
    return [node.op_type for node in local_model(graph, plan, 0).graph]


@pytest.mark.parametrize(
    ("shape", "axis", "moved"),
    [
        ((1, 8, 3, 2), 1, "Reshape"),
        ((1, 1, 8, 2), 2, "Reshape"),
        ((8, 3), 0, None),
        ((2, 8, 3, 2), 1, "Transpose"),
    ],
)
def test_an_all_gather_moves_as_little_as_it_can(
    shape: tuple[int, ...], axis: int, moved: str | None
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    model, feeds = one_node("Relu", [x])
    graph = graph_of(model)
    part = even_split(axis, shape[axis], 2)
    assert part is not None
    plan = with_conversions(graph, {"node": Strategy((part,), (part,))}, 2)
    after = [moved] if moved else []
    before = after if moved == "Transpose" else []
    assert kinds(graph, plan) == ["Slice", "Relu", *before, "AllGather", *after]
    for (found,) in run_in_lockstep(graph, plan, feeds):
        np.testing.assert_array_equal(found, np.maximum(x, 0))


@pytest.mark.parametrize(("rows", "axis"), [(6, 2), (7, 2), (7, 3)])
def test_rows_of_images_are_gathered_one_beside_the_other(rows: int, axis: int) -> None:
    shape = [2, 3, 5, 5]
    shape[axis] = rows
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    model, feeds = one_node("Relu", [x])
    graph = graph_of(model)
    for ranks in (2, 3):
        part = even_split(axis, rows, ranks)
        assert part is not None
        plan = with_conversions(graph, {"node": Strategy((part,), (part,))}, ranks)
        chosen = [] if part.even else ["Gather"]
        parts = ["Slice"] * ranks
        assert kinds(graph, plan) == ["Slice", "Relu", *chosen, "AllGather", *parts, "Concat"]
        for (found,) in run_in_lockstep(graph, plan, feeds):
            np.testing.assert_array_equal(found, np.maximum(x, 0))


def test_an_open_dimension_behind_the_axis_is_transposed() -> None:
    model, _ = one_node("Relu", [np.ones((1, 8, 5), np.float32)], open_axes={0: [2]})
    graph = graph_of(model)
    part = even_split(1, 8, 2)
    assert part is not None
    plan = with_conversions(graph, {"node": Strategy((part,), (part,))}, 2)
    assert kinds(graph, plan) == ["Slice", "Relu", "Transpose", "AllGather", "Transpose"]


@pytest.mark.parametrize("axis", [0, 1])
def test_a_part_becomes_a_window_that_reaches_into_others(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32)
    model, feeds = one_node("Neg", [x])
    middle = onnx.helper.make_node("Relu", ["middle"], list(model.graph.node[0].output), "last")
    model.graph.node[0].output[0] = "middle"
    model.graph.node.append(middle)
    graph = graph_of(model)
    part, window = even_split(axis, 9, 3), Windows(axis, (0, 2, 5), (4, 7, 9))
    assert part is not None
    strategies = {"node": Strategy((part,), (part,)), "last": Strategy((window,), (window,))}
    for (found,) in run_in_lockstep(graph, with_conversions(graph, strategies, 3), feeds):
        np.testing.assert_array_equal(found, np.maximum(-x, 0))
