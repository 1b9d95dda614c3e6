"""Every strategy of gathering and scattering by several indices gives the whole result."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_plan, check_strategies, graph_of, one_node

from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.placement.operator_node import (
    NodeOperand,
    Strategy,
    operator_nodes,
)
from rankmesh.compiler.slicing.placement.placements import WHOLE, split
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.rules import RULES

DRAW = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def picked(high: int, *shape: int) -> np.ndarray:
    return DRAW.integers(0, high, shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int) -> None:
    inputs = [normal(4, 5, 6), picked(4, 4, 5, 6) - 2]
    check_strategies(*one_node("GatherElements", inputs, axis=axis), least=2)


def test_gather_elements_of_other_sizes() -> None:
    check_strategies(*one_node("GatherElements", [normal(4, 5, 6), picked(4, 4, 5, 2)]), least=1)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatter_elements(reduction: str) -> None:
    index = np.argsort(normal(4, 6, 5), axis=1)[:, :2]
    inputs = [normal(4, 6, 5), index, normal(4, 2, 5)]
    model = one_node("ScatterElements", inputs, axis=1, reduction=reduction)
    check_strategies(*model, least=2)


@pytest.mark.parametrize(
    ("batch", "indices", "least"), [(0, (5, 4, 1), 4), (1, (4, 5, 1), 3), (0, (5, 3), 1)]
)
def test_gather_nd(batch: int, indices: tuple[int, ...], least: int) -> None:
    inputs = [normal(4, 5, 6), picked(4, *indices)]
    check_strategies(*one_node("GatherND", inputs, batch_dims=batch), least=least)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_nd(reduction: str) -> None:
    inputs = [normal(8, 5, 6), integers(3, 1, 6, 0).reshape(2, 2, 1), normal(2, 2, 5, 6)]
    check_strategies(*one_node("ScatterND", inputs, reduction=reduction), least=2)


def counted(*sizes: int) -> np.ndarray:
    """The index of each element of a box of these sizes."""
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_nd_into_a_part_of_the_last_axis(reduction: str) -> None:
    """`x[..., 2:5] = y`: the indices count through the other axes, which are split."""
    inputs = [normal(4, 5, 6), counted(4, 5, 3) + integers(0, 0, 2), normal(4, 5, 3)]
    check_strategies(*one_node("ScatterND", inputs, [1], reduction=reduction), least=2)


def test_scatter_nd_into_some_rows() -> None:
    """`x[:, 1:4] = y`: axis 0 is counted, axis 1 is not, and axis 2 lies behind."""
    inputs = [normal(4, 5, 6), counted(4, 3) + integers(0, 1), normal(4, 3, 6)]
    check_strategies(*one_node("ScatterND", inputs, [1]), least=2)


def test_scatter_nd_of_segments() -> None:
    """A counted axis that is fused of two parts, of which each rank has its share."""
    inputs = [normal(4, 12, 6), counted(4, 12, 3), normal(4, 12, 3)]
    model, feeds = one_node("ScatterND", inputs, [1])
    graph = graph_of(model)
    for ranks in (2, 3, 4):
        part = split(1, [*range(ranks), 4], [1, 2])
        assert part is not None
        strategy = Strategy((part, WHOLE, part), (part,))
        assert strategy in RULES["ScatterND"].strategies(
            operator_nodes(graph, ranks)["node"], NodeOperand(0), part
        )
        plan = SlicePlan(ranks, {"node": strategy})
        check_plan(graph, plan, feeds, run_model(graph.model.clone(), feeds))


def test_tensor_scatter() -> None:
    inputs = [normal(4, 5, 8, 6), normal(4, 5, 2, 6), integers(0, 3, 1, 6)]
    check_strategies(*one_node("TensorScatter", inputs, opset=24), least=3)


def test_reverse_sequence() -> None:
    inputs = [normal(6, 4, 5), integers(1, 3, 6, 2)]
    check_strategies(*one_node("ReverseSequence", inputs, time_axis=0, batch_axis=1), least=2)
