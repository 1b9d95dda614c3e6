"""Verification: a sound plan passes block by block and whole; an unsound one is named."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from sliced import example
from slicing import graph_of
from tiny_transformer import tiny_transformer

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.slicing.emission.blocks import BlockCutter
from rankmesh.compiler.slicing.emission.feeds import random_feeds
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.emission.verify import tolerance, verify
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE, Split
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

COLUMNS, ROWS = Split(1, (0, 20, 40)), Split(0, (0, 20, 40))
UP, ACT = Strategy((WHOLE, COLUMNS), (COLUMNS,)), Strategy((COLUMNS,), (COLUMNS,))


def mlp(array):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "up"),
        helper.make_node("Sigmoid", ["h"], ["a"], "act"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], "down"),
    ]
    info = [helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in "xy"]
    weights = [array(4, 40), array(40, 4)]
    tensors = [
        numpy_helper.from_array(w.astype(np.float32), f"w{i + 1}") for i, w in enumerate(weights)
    ]
    graph = helper.make_graph(nodes, "mlp", info[:1], info[1:], tensors)
    opsets = [helper.make_opsetid("", 21)]
    return graph_of(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def plan(down):
    return SlicePlan(2, {"up": UP, "act": ACT, "down": Strategy((COLUMNS, ROWS), (down,))})


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_values_of_float8_are_inside_blocks(kind):
    """onnxruntime gives no array of float8, whatever numpy calls its kind."""
    number = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "quantise"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "dequantise"),
        helper.make_node("Sigmoid", ["d"], ["y"], "act"),
    ]
    info = [helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in "xy"]
    constants = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.25]),
        helper.make_tensor("zero", number, [], [0.0]),
    ]
    made = helper.make_graph(nodes, "quantised", info[:1], info[1:], constants)
    opsets = [helper.make_opsetid("", 21)]
    graph = graph_of(helper.make_model(made, opset_imports=opsets, ir_version=10))
    proof = verify(graph, SlicePlan(2, {}))
    assert proof.compared and proof.error == 0 and proof.tolerance == 5e-2


@pytest.mark.parametrize("seed", range(2))
def test_fuzzed_plans_pass_in_blocks_and_whole(seed):
    graph = graph_of(example().transformer())
    fuzzed = random_plan(graph, propagate(graph, 3), 3, seed)
    whole = verify(graph, fuzzed, "full")
    assert whole.blocks == 1 and len(whole.sizes) == 3
    assert whole.error <= 1e-5


def test_blocks_cover_all_nodes_and_carry_placements(monkeypatch):
    graph = graph_of(example().transformer())
    fuzzed = random_plan(graph, propagate(graph, 2), 2, 1)
    cut = list(BlockCutter(graph, fuzzed, 30_000))
    names = [
        node.name for block in cut for node in block.graph.nodes if node.name in fuzzed.strategies
    ]
    assert names == [node.name for node in graph.nodes]
    assert any(name != source for block in cut for name, source in block.inputs.items())
    proof = verify(graph, fuzzed, block_bytes=30_000)
    assert proof.blocks == len(cut) > 5
    assert proof.error <= 1e-5


@pytest.mark.parametrize("mode", ["blocks", "full"])
@pytest.mark.parametrize("array", [np.zeros, np.random.default_rng(0).standard_normal])
def test_a_missing_sum_is_named_even_if_all_weights_are_zero(mode, array):
    def made(*shape):
        return array(shape)

    assert verify(mlp(made), plan(SUM), mode).error <= 1e-6
    with pytest.raises(ModelError, match="value 'y' of rank 0 has the relative error"):
        verify(mlp(made), plan(WHOLE), mode)


def test_weights_are_those_of_the_files():
    graph = mlp(lambda *shape: np.random.default_rng(1).standard_normal(shape))
    second = np.asarray(graph.weights["w2"].const_value.numpy())
    stored = [{("w2", ROWS): ir.tensor(second[part])} for part in (slice(20), slice(20, 40))]
    assert verify(graph, plan(SUM), stored=stored).error <= 1e-6
    stored[1] = {("w2", ROWS): ir.tensor(second[:20])}
    with pytest.raises(ModelError, match="value 'y' of rank 0"):
        verify(graph, plan(SUM), stored=stored)


@pytest.mark.parametrize("ranks", [1, 2])
def test_blocks_prove_each_stage_and_what_crosses(ranks):
    graph = graph_of(tiny_transformer(open_dims=True)[0])
    first = random_plan(graph, propagate(graph, 2), 2, 1) if ranks == 2 else SlicePlan(1, {})
    staged = with_stages(graph, first, 3)
    layout = stage_layout(graph, staged)
    cut = list(BlockCutter(graph, staged, 2_000))
    for stage, names in enumerate(layout.nodes):
        own = [b for b in cut if b.stage == stage and b.plan.stages == 1]
        proved = [node.name for block in own for node in block.graph.nodes]
        assert [n.name for n in graph.nodes if n.name in names] == [n for n in proved if n in names]
    crossing = [block for block in cut if block.plan.stages == 2]
    assert [block.outputs for block in crossing] == layout.crossing
    proof = verify(graph, staged, block_bytes=2_000)
    assert proof.blocks == len(cut) and proof.error <= 1e-5


def test_weights_of_a_later_stage_are_those_of_its_file():
    graph = graph_of(tiny_transformer()[0])
    staged = with_stages(graph, SlicePlan(1, {}), 2)
    assert "embedding.transposed/Transpose" in stage_layout(graph, staged).nodes[1]
    wrong = ir.tensor(np.asarray(graph.weights["embedding"].const_value.numpy()) + 1)
    for block_bytes in (2_000, 1 << 20):
        stored = [{}, {("embedding", WHOLE): wrong}]
        with pytest.raises(ModelError, match="of rank 1 has the relative error"):
            verify(graph, staged, stored=stored, block_bytes=block_bytes)


@pytest.mark.pure
def test_the_tolerance_follows_what_is_rounded():
    assert tolerance(mlp(lambda *shape: np.ones(shape))) == 1e-5
    rounds = ir.node("DynamicQuantizeMatMul", [], domain="com.microsoft")
    graph = mlp(lambda *shape: np.ones(shape))
    graph.model.graph.append(rounds)
    assert tolerance(graph) == 5e-2


@pytest.mark.pure
def test_ids_stay_within_the_vocabulary():
    graph = graph_of(example().transformer())
    feeds = random_feeds(graph, {"batch": 50, "sequence": 100})
    assert feeds["ids"].min() >= 0 and 256 < feeds["ids"].max() < 512
