"""Lockstep runs of bench/slicing.py: all ranks of a plan in one session, and what they exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.lockstep import merged
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.emission.trial import MappedSession
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.traffic import StageTraffic
from rankmesh.compiler.source_graph.source_graph import SourceGraph

KINDS = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll")


@dataclass(frozen=True, slots=True)
class Exchange:
    """Collectives by kind, and the bytes of a rank's operands of all of them."""

    kinds: Mapping[str, int]
    nbytes: int


class LockstepRun:
    """A session of all ranks of a plan, whose outputs are the results and all operands."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan) -> None:
        models = [local_model(graph, plan, rank) for rank in range(plan.world_size)]
        self._plan = plan
        self._count = len(graph.model.graph.outputs)
        self._kinds = [list(_with_operands(model.graph)) for model in models]
        self._session = MappedSession(merged(models))

    def results(self, feeds: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
        """The outputs of each rank of the last stage."""
        return [found[: self._count] for found in self._run(feeds)][-self._plan.ranks :]

    def exchange(self, feeds: Mapping[str, np.ndarray]) -> Exchange:
        """The collectives of one rank of each stage, and the bytes that it really gives them."""
        kinds: Counter[str] = Counter()
        nbytes = 0
        found = self._run(feeds)
        for rank in range(0, self._plan.world_size, self._plan.ranks):
            kinds.update(self._kinds[rank])
            nbytes += sum(one.nbytes for one in found[rank][self._count :])
        return Exchange(dict(sorted(kinds.items())), nbytes)

    def _run(self, feeds: Mapping[str, np.ndarray]) -> Sequence[list[np.ndarray]]:
        """The outputs of each rank, its operands behind them."""
        arrays = iter(self._session.run(feeds))
        return [[next(arrays) for _ in range(self._count + len(one))] for one in self._kinds]


def _with_operands(graph: ir.Graph) -> Iterator[str]:
    """Make the operands of a rank's collectives outputs, too; their kinds."""
    for index, node in enumerate([one for one in graph if one.op_type in KINDS]):
        if node.domain != "rankmesh":
            continue
        operand = node.inputs[0]
        assert operand is not None
        copy = ir.node("Identity", [operand])
        copy.outputs[0].name = f"operand.{index}"
        copy.outputs[0].type = operand.type
        node.prepend(copy)
        graph.outputs.append(copy.outputs[0])
        yield node.op_type


def predicted(graph: SourceGraph, plan: SlicePlan) -> Exchange:
    """The collectives that the planner predicts, for the usual sizes of open dimensions."""
    traffic = StageTraffic(graph, plan, stage_layout(graph, plan), HostCosts())
    found = [
        one for stage in range(plan.stages) for one in traffic.of_stage(stage) if not one.crosses
    ]
    kinds = Counter(kind for one in found for kind in one.kinds)
    return Exchange(dict(sorted(kinds.items())), sum(one.nbytes for one in found))
