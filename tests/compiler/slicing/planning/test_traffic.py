"""Traffic: predicted collectives and bytes are those of the shards that are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from tiny_transformer import tiny_transformer

from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.slicing.emission.feeds import random_feeds
from rankmesh.compiler.slicing.emission.lockstep import merged
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.emission.write import write_shard
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.explain import layers
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.prediction import predict
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.slicing.planning.traffic import StageTraffic
from rankmesh.compiler.slicing.search.choose import choose_plan
from rankmesh.compiler.source_graph.source_graph import source_model

Traffic = tuple[Counter[str], int]


def counted(paths: Sequence[Path], feeds: Mapping[str, np.ndarray]) -> list[Traffic]:
    """The collectives of each shard, and the bytes of their operands when the shards run."""
    models = [ir.load(path) for path in paths]
    operands = [_operands(model.graph) for model in models]
    outputs = [len(model.graph.outputs) for model in models]
    found = iter(run_model(merged(models), feeds))
    traffic = []
    for kinds, count in zip(operands, outputs, strict=True):
        arrays = [next(found) for _ in range(count)]
        nbytes = sum(one.nbytes for one in arrays[count - len(kinds) :])
        traffic.append((Counter(kinds), nbytes))
    return traffic


def _operands(graph: ir.Graph) -> list[str]:
    """Make the operands of all collectives outputs, of a Receive its result; the kinds."""
    nodes = [node for node in graph if node.domain == "rankmesh"]
    for index, node in enumerate(nodes):
        operand = node.outputs[0] if node.op_type == "Receive" else node.inputs[0]
        assert operand is not None
        copy = ir.node("Identity", [operand])
        copy.outputs[0].name, copy.outputs[0].type = f"operand.{index}", operand.type
        (node.append if node.op_type == "Receive" else node.prepend)(copy)
        graph.outputs.append(copy.outputs[0])
    return [node.op_type for node in nodes]


@pytest.mark.parametrize(
    ("ranks", "stages", "chosen"),
    [(3, 1, True), (3, 1, False), (1, 3, False), (2, 2, True), (2, 2, False)],
)
def test_predicted_traffic_is_that_of_the_shards(
    ranks: int, stages: int, chosen: bool, tmp_path: Path
) -> None:
    loaded = LoadedModel(tiny_transformer(open_dims=True)[0], "tiny.onnx")
    graph = source_graph(source_model(loaded), "tiny.onnx", {"batch": 2, "sequence": 6})
    if ranks == 1:
        plan = SlicePlan(1, {})
    elif chosen:
        plan = choose_plan(graph, ranks, seconds=5).plan
    else:
        plan = random_plan(graph, propagate(graph, ranks), ranks, seed=7)
    plan = with_stages(graph, plan, stages) if stages > 1 else plan
    shards = [
        write_shard(graph, plan, rank, tmp_path / "shard", "f00").path
        for rank in range(plan.world_size)
    ]
    traffic = StageTraffic(graph, plan, stage_layout(graph, plan), HostCosts())
    shown = layers(graph, plan, HostCosts())
    for rank, found in enumerate(counted(shards, random_feeds(graph, graph.sizes))):
        stage = rank // ranks
        exchanges = list(traffic.of_stage(stage))
        kinds = Counter(kind for one in exchanges for kind in one.kinds)
        assert found == (kinds, sum(one.nbytes for one in exchanges))
        rows = [row for row in shown if row.stage == stage for _ in range(row.alike)]
        listed = sum((row.collectives for row in rows), Counter[str]())
        assert found == (listed, sum(row.moved for row in rows))
        seconds = sum(row.seconds for row in rows)
        assert seconds == pytest.approx(predict(graph, plan, HostCosts()).stage_seconds[stage])
