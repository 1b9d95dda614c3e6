"""Random small models in which much is computed from weights alone, and slices of them.

Values of weights alone are what segments need not produce: onnxruntime folds them, collectives take
them, outputs are them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from slicing import graph_of

from rankmesh import ModelError
from rankmesh.comm.processes.shard_trial import ShardTrial
from rankmesh.compiler.slicing.emission.rank_proof import (
    RankProof,
    WrittenShards,
    prove_by_ranks,
)
from rankmesh.compiler.slicing.emission.verify import Proof
from rankmesh.compiler.slicing.emission.write import write_shard
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.source_graph.source_graph import SourceGraph

_ROWS, _WIDTH, _SIDE = 4, 12, 6
Shape = tuple[int, ...]


class RandomModel:
    """A model whose values have one of few shapes, so that any of them fit."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._draw = np.random.default_rng(random.randrange(1 << 30))
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, np.ndarray] = {}
        self._constants: dict[Shape, list[str]] = {}
        self._images = random.random() < 0.5
        image = (1, _WIDTH, _SIDE, _SIDE)
        self._shape: Shape = image if self._images else (_ROWS, _WIDTH)
        self._live = ["x"]
        for _ in range(random.randint(3, 7)):
            random.choice(self._steps())()

    def model(self) -> ModelProto:
        """The model, with outputs of each kind."""
        inputs = [self._info(name, self._shape) for name in ("x", "unused")]
        outputs = [self._info(name, shape) for name, shape in self._outputs()]
        tensors = [numpy_helper.from_array(array, name) for name, array in self._weights.items()]
        graph = helper.make_graph(self._nodes, "random", inputs, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def _outputs(self) -> list[tuple[str, Shape]]:
        found = [(self._live[-1], self._shape)]
        odd: Sequence[tuple[str, Shape]] = (
            (self._live[0], self._shape),
            (self._add("Identity", "unused"), self._shape),
            (self._add("Identity", self._live[-1]), self._shape),
            (self._weight((_WIDTH, 3)), (_WIDTH, 3)),
            (self._constant((_WIDTH, _WIDTH)), (_WIDTH, _WIDTH)),
            (self._add("Identity", self._constant(self._shape)), self._shape),
        )
        found += [one for one in odd if self._random.random() < 0.25]
        return list(dict.fromkeys(found))

    def _steps(self) -> Sequence[Callable[[], object]]:
        common = (self._elementwise, self._elementwise, self._activation, self._branch)
        return (*common, *([self._convolve] * 3 if self._images else [self._multiply] * 4))

    def _elementwise(self) -> None:
        other: Shape = self._random.choice([self._shape, (_WIDTH, *[1] * (len(self._shape) - 2))])
        self._live.append(
            self._add(self._random.choice(["Add", "Mul"]), self._value(), self._constant(other))
        )

    def _activation(self) -> None:
        self._live.append(self._add(self._random.choice(["Relu", "Tanh"]), self._value()))

    def _multiply(self) -> None:
        wide = self._random.choice([_WIDTH, 2 * _WIDTH])
        made = self._add("MatMul", self._value(), self._constant((_WIDTH, wide)))
        if wide != _WIDTH:
            made = self._add("MatMul", self._add("Relu", made), self._constant((wide, _WIDTH)))
        self._live.append(made)

    def _convolve(self) -> None:
        size = self._random.choice([1, 3])
        weight = self._constant((_WIDTH, _WIDTH, size, size))
        self._live.append(self._add("Conv", self._value(), weight, pads=[size // 2] * 4))

    def _branch(self) -> None:
        """An If, by a condition that is a weight; its branches take constants and live values."""
        condition = self._weight_of(np.array(self._random.random() < 0.5))
        branches = {}
        for name in ("then_branch", "else_branch"):
            out = f"{name}{len(self._nodes)}"
            inner = helper.make_node(
                "Add", [self._value(), self._constant(self._shape)], [out], out
            )
            branches[name] = helper.make_graph([inner], out, [], [self._info(out, self._shape)])
        self._live.append(self._add("If", condition, **branches))

    def _value(self) -> str:
        return self._random.choice(self._live[-2:])

    def _constant(self, shape: Shape) -> str:
        """A weight, or what is computed from weights alone."""
        known = self._constants.setdefault(shape, [])
        kind = self._random.choice(["old", "weight", "norm", "norm", "sum", "turned"])
        if kind == "old" and known:
            return self._random.choice(known)
        made = self._weight(shape)
        if kind == "norm":  # weight normalisation: g * v / |v|
            length = self._add("ReduceL2", made, axes=[0], keepdims=1)
            gain = self._weight((1, *shape[1:]))
            made = self._add("Mul", gain, self._add("Div", made, length))
        elif kind == "sum":
            made = self._add("Add", made, self._weight(shape))
        elif kind == "turned" and len(shape) == 2:
            made = self._add("Transpose", self._weight(shape[::-1]), perm=[1, 0])
        known.append(made)
        return made

    def _weight(self, shape: Shape) -> str:
        return self._weight_of(self._draw.standard_normal(shape, np.float32) / 3)

    def _weight_of(self, array: np.ndarray) -> str:
        name = f"w{len(self._weights)}"
        self._weights[name] = array
        return name

    def _add(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    @staticmethod
    def _info(name: str, shape: Shape) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def prove_random(seed: int, folder: Path, trial: ShardTrial) -> int:
    """Slice a random model by a random plan, and have ranks run it.

    Returns how many values of weights alone change their placement. Raises ModelError where ranks
    fail or answer otherwise.
    """
    random = Random(seed)
    graph = graph_of(RandomModel(random).model())
    ranks, stages = random.choice([(2, 1), (3, 1), (1, 2), (1, 3), (2, 2)])
    plan = random_plan(graph, propagate(graph, ranks), ranks, random.randrange(1000))
    with suppress(ModelError):  # too few nodes depend on the input
        plan = with_stages(graph, plan, stages) if stages > 1 else plan
    prove(graph, plan, folder / f"seed{seed}", trial)
    constant = _of_weights_alone(graph)
    return sum(one.value in constant for one in plan.conversions)


def prove(graph: SourceGraph, plan: SlicePlan, stem: Path, trial: ShardTrial) -> RankProof:
    """Write the shards of a plan, and have ranks run them; see prove_by_ranks."""
    for rank in range(plan.world_size):
        write_shard(graph, plan, rank, stem, "fingerprint")
    shards = WrittenShards(graph, f"{stem}_rank{{rank}}.onnx", [0] * plan.world_size)
    return prove_by_ranks(shards, Proof("full", 1e-5, sizes=({},)), trial)


def _of_weights_alone(graph: SourceGraph) -> set[str]:
    """The values that nodes compute from weights alone."""
    found = set(graph.weights)
    for node in graph.nodes:
        if node.op_type != "If" and all(one and one.name in found for one in node.inputs):
            found.update(str(value.name) for value in node.outputs)
    return found - set(graph.weights)
