"""Pipelines in lockstep give what the whole model gives, alone and with tensor parallel stages."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from slicing import check_plan, graph_of
from tiny_transformer import tiny_transformer

from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.emission.write import write_shard
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.source_graph.source_graph import SourceGraph, source_model


def anywhere(graph: SourceGraph, plan: SlicePlan, stages: int, seed: int) -> SlicePlan:
    """The plan with random cuts, and nothing computed twice."""
    cuts = random.Random(seed).sample(range(1, len(graph.nodes)), stages - 1)
    stage_of = {
        str(node.name): sum(position >= cut for cut in cuts)
        for position, node in enumerate(graph.nodes)
    }
    return dataclasses.replace(plan, stages=stages, stage_of=stage_of)


@pytest.mark.parametrize("open_dims", [False, True])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_give_what_the_model_gives(stages: int, ranks: int, open_dims: bool) -> None:
    model, feeds = tiny_transformer(open_dims=open_dims)
    graph = graph_of(model)
    expected = run_model(graph.model.clone(), feeds)
    found = propagate(graph, ranks) if ranks > 1 else None
    plans = [
        random_plan(graph, found, ranks, seed) if found else SlicePlan(1, {}) for seed in (1, 2)
    ]
    check_plan(graph, with_stages(graph, plans[0], stages), feeds, expected)
    check_plan(graph, anywhere(graph, plans[1], stages, stages), feeds, expected)


def test_open_dimensions_have_other_sizes_at_run_time() -> None:
    model, _ = tiny_transformer(open_dims=True)
    graph = graph_of(model)
    plan = with_stages(graph, SlicePlan(1, {}), 2)
    for batch, length in ((1, 1), (3, 7)):
        feeds = {
            "ids": np.arange(batch * length).reshape(batch, length) % 24,
            "mask": np.ones((batch, length), np.int64),
        }
        check_plan(graph, plan, feeds, run_model(graph.model.clone(), feeds))


@pytest.mark.pure
def test_shards_refer_to_no_file_but_their_own(tmp_path: Path) -> None:
    model, _ = tiny_transformer()
    source = tmp_path / "tiny.onnx"
    onnx.save(model, source, save_as_external_data=True, location="tiny.data", size_threshold=0)
    loaded = LoadedModel(onnx.load(source, load_external_data=False), str(source))
    graph = source_graph(source_model(loaded), str(source))
    plan = with_stages(graph, SlicePlan(1, {}), 2)
    for rank in range(2):
        written = write_shard(graph, plan, rank, tmp_path / "shard", "f00")
        weights = onnx.load(written.path, load_external_data=False).graph.initializer
        entries = [entry for weight in weights for entry in weight.external_data]
        places = {entry.value for entry in entries if entry.key == "location"}
        assert places <= {f"shard_rank{rank}.data"}


@pytest.mark.pure
def test_a_stage_has_its_own_nodes_and_weights_only() -> None:
    graph = graph_of(tiny_transformer()[0])
    plan = with_stages(graph, SlicePlan(1, {}), 2)
    shards = [local_model(graph, plan, rank).graph for rank in range(2)]
    weights = [set(shard.initializers) for shard in shards]
    assert "embedding" in weights[0] & weights[1]  # tied
    assert not any("layer0" in name for name in weights[1])
    assert [[v.name for v in shard.inputs] for shard in shards] == [["ids", "mask"]] * 2
    assert [[v.name for v in shard.outputs] for shard in shards] == [["early", "logits"]] * 2
    kinds = [[node.op_type for node in shard if node.domain == "rankmesh"] for shard in shards]
    assert kinds == [["Send"] * len(kinds[0]), ["Receive"] * len(kinds[0])]
