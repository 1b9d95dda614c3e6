"""Stages of whole models: balanced, with masks and positions in each, and possible."""

from __future__ import annotations

import pytest
from slicing import graph_of
from tiny_transformer import tiny_transformer

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.slicing.emission.stage_layout import StageLayout, stage_layout
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.pipeline import with_stages

pytestmark = pytest.mark.pure


def layout(stages: int, layers: int = 2, costs: HostCosts | None = None) -> StageLayout:
    graph = graph_of(tiny_transformer(layers)[0])
    return stage_layout(graph, with_stages(graph, SlicePlan(1, {}), stages, costs))


def test_layers_are_shared_out_and_little_crosses() -> None:
    found = layout(2, layers=4)
    (crossing,) = found.crossing  # an early output, and the residual
    assert crossing[1:] == ["layer1.hidden"]
    assert "layer1.hidden/Add" in found.nodes[0]
    assert "layer2.hidden/Add" in found.nodes[1]
    dear = layout(2, layers=4, costs=HostCosts(latency=1e-3))
    assert [len(values) for values in dear.crossing] == [1]  # the output is the residual there


def test_stages_compute_masks_for_themselves() -> None:
    found = layout(3, layers=3)
    assert all("mask.added/Mul" in nodes for nodes in found.nodes)
    assert not any("mask.added" in values for values in found.crossing)
    assert "embedding.transposed/Transpose" in found.nodes[-1]


def test_a_table_that_costs_more_than_its_rows_is_not_stored_twice() -> None:
    found = layout(2, costs=HostCosts(byte=1.0, latency=0.0))
    holders = [nodes for nodes in found.nodes if "position/Gather" in nodes]
    assert len(holders) == 1


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(ModelError, match=r"cannot be cut into 500 stages: it has \d+ nodes"):
        layout(500)


def test_values_do_not_go_backwards() -> None:
    graph = graph_of(tiny_transformer()[0])
    stage_of = {str(node.name): 0 for node in graph.nodes} | {"embedded/Gather": 1}
    with pytest.raises(ModelError, match=r"embedded/Gather \(Gather\) is in stage 1 .* stage 0"):
        stage_layout(graph, SlicePlan(1, {}, (), 2, stage_of))
