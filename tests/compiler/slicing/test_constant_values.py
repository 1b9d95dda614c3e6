"""Values of weights alone, and odd outputs: real ranks run what slices make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from constant_graphs import prove, prove_random
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from slicing import graph_of

from rankmesh.comm.processes.shard_trial import ShardTrial
from rankmesh.compiler.slicing.emission.verify import verify
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

_SEEDS = 5
_DRAW = np.random.default_rng(0)


@pytest.fixture(scope="module")
def trial() -> Iterator[ShardTrial]:
    """One process forks the ranks of all tests."""
    with ShardTrial() as found:
        yield found


@pytest.mark.parametrize("first", range(0, 4 * _SEEDS, _SEEDS))
def test_random_models_are_run_by_ranks(first: int, trial: ShardTrial, tmp_path: Path) -> None:
    """tests/fuzz/fuzz_constants.py has more of them."""
    moved = [prove_random(seed, tmp_path, trial) for seed in range(first, first + _SEEDS)]
    assert any(moved), "no collective takes a value of weights alone"


def _node(operator: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), outputs, **attributes)


def _info(name: str, *shape: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _branch(node: NodeProto) -> GraphProto:
    return helper.make_graph([node], "branch", [], [_info(node.output[0], 4, 8)])


@dataclass
class Odd:
    """Nodes and outputs besides those of two layers that give y, and further weights."""

    nodes: Sequence[NodeProto]
    outputs: Sequence[ValueInfoProto] = ()
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)


_ODD = {
    "a weight is an output": Odd([], [_info("k", 4, 8)]),
    "a weight in use is an output": Odd(
        [_node("Add", "y k", "t")], [_info("k", 4, 8), _info("t", 4, 8)]
    ),
    "a constant is an output": Odd([_node("Mul", "k k", "t")], [_info("t", 4, 8)]),
    "an input is an output": Odd([], [_info("x", 4, 8)]),
    "an input goes through": Odd([_node("Identity", "x", "t")], [_info("t", 4, 8)]),
    "an output is there twice": Odd([], [_info("y", 4, 8)]),
    "a value is two outputs": Odd([_node("Identity", "y", "t")], [_info("t", 4, 8)]),
    "a product of weights": Odd(
        [_node("MatMul", "k up", "u"), _node("MatMul", "u down", "d"), _node("Add", "y d", "t")],
        [_info("t", 4, 8)],
    ),
    "branches hand on outer values": Odd(
        [_node("ReduceSum", "y", "sum", keepdims=0), _node("Greater", "sum zero", "if"),
         _node("If", "if", "t", then_branch=_branch(_node("Identity", "y", "one")),
               else_branch=_branch(_node("Identity", "k", "other")))],
        [_info("t", 4, 8)],
        {"zero": np.array(0, np.float32)},
    ),
    "a weight without elements": Odd(
        [_node("Concat", "y none", "t", axis=1)], [_info("t", 4, 8)],
        {"none": np.zeros((4, 0), np.float32)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "stages"), [(2, 1), (3, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
def test_odd_outputs(odd: Odd, ranks: int, stages: int, trial: ShardTrial, tmp_path: Path) -> None:
    weights = {
        "up": _DRAW.standard_normal((8, 16), np.float32),
        "down": _DRAW.standard_normal((16, 8), np.float32),
        "k": _DRAW.standard_normal((4, 8), np.float32),
    }
    nodes = [_node("MatMul", "x up", "h"), _node("Relu", "h", "r"), _node("MatMul", "r down", "y")]
    tensors = [numpy_helper.from_array(a, n) for n, a in (weights | {**odd.weights}).items()]
    made = helper.make_graph(
        [*nodes, *odd.nodes], "odd", [_info("x", 4, 8)], [_info("y", 4, 8), *odd.outputs], tensors
    )
    opsets = [helper.make_opsetid("", 17)]
    graph = graph_of(helper.make_model(made, opset_imports=opsets, ir_version=9))
    plan = SlicePlan(1, {}) if ranks == 1 else random_plan(graph, propagate(graph, ranks), ranks, 1)
    plan = with_stages(graph, plan, stages) if stages > 1 else plan
    assert verify(graph, plan, "full").error < 1e-5
    assert prove(graph, plan, tmp_path / "odd", trial).reach == "ranks"
