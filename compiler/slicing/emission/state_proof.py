"""State proof: ranks run one step of a decoder, each on its own parts of the states.

The states are random, as if many steps had been before. Each rank has the parts of them that the
plan gives it, and has to make its parts of the states and logits of the whole decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ....comm.job.shard import RANK
from ....comm.processes.shard_trial import ShardTrial, TrialRequest
from ....comm.text import counted
from ...decoders.step_feeds import CAPACITY_TOKENS, SEQUENCES, step_indexes
from ...decoders.step_graph import LOGITS
from ...source_graph.source_graph import SourceGraph
from ..placement.placements import Placement
from ..placement.slice_plan import SlicePlan, produced_placements
from .rank_proof import NOTHING, RANKS, RankProof, WrittenShards, accepted, check_error, obstacle
from .trial import MappedSession
from .weight_part import WeightPart

_TOLERANCE = 1e-4
_ROUNDED = 2e-1
"""The tolerance of decoders whose products round their inputs to 8 bits: a sum that ranks round
differently may cross a step of 1/127, and each layer adds some. SmolLM2's 30 layers make 6e-2.
"""

Arrays = Mapping[str, np.ndarray]


def prove_states(shards: WrittenShards, plan: SlicePlan, trial: ShardTrial) -> RankProof:
    """Have ranks load the shards of a decoder and run a step; ModelError where they do not, or
    answer something else.
    """
    reason = obstacle(shards)
    if reason:
        accepted(shards, trial.ask(TrialRequest(shards.pattern, shards.ranks, "read")))
        return RankProof(NOTHING, f"{NOTHING}, each shard was read by itself: {reason}")
    pattern = str(Path(shards.pattern).parent / f"trial_{RANK}.npz")
    try:
        _write_examples(shards, plan, pattern)
        answer = trial.ask(TrialRequest(shards.pattern, shards.ranks, "run", pattern, True))
    finally:
        for rank in range(shards.ranks):
            Path(pattern.replace(RANK, str(rank))).unlink(missing_ok=True)
    accepted(shards, answer)
    most = _ROUNDED if _rounds(shards.graph) else _TOLERANCE
    check_error(answer, most)
    told = f"largest relative error {answer.largest:.1e} (tolerance {most:.0e})"
    return RankProof(RANKS, f"a step run by {counted(shards.ranks, 'rank')} together, {told}")


def _rounds(graph: SourceGraph) -> bool:
    return any(node.op_type == "MatMulNBits" for node in graph.nodes)


def _write_examples(shards: WrittenShards, plan: SlicePlan, pattern: str) -> None:
    """Write the inputs of each rank, and the outputs that are expected of it."""
    graph = shards.graph
    feeds = _feeds(graph)
    results = MappedSession(graph.model.clone()).run(feeds)
    outputs = [str(value.name) for value in graph.model.graph.outputs]
    produced, states = produced_placements(graph, plan), graph.states
    taken = {states[name]: produced[name] for name in outputs if states.get(name)}
    made = {name: produced[name] for name in outputs if name in states}
    for rank in range(shards.ranks):
        arrays = {
            f"in_{at}": _part(taken, name, feeds[name], rank) for at, name in enumerate(feeds)
        }
        for at, (name, array) in enumerate(zip(outputs, results, strict=True)):
            arrays[f"out_{at}"] = _part(made, name, array, rank)
        np.savez(pattern.replace(RANK, str(rank)), **arrays)  # type: ignore[arg-type]


def _feeds(graph: SourceGraph) -> Arrays:
    """Inputs of the whole decoder, in its order."""
    draw = np.random.default_rng(0)
    logits = next(one for one in graph.model.graph.outputs if one.name == LOGITS)
    indexes = step_indexes(int(logits.shape[-1]))  # type: ignore[index,arg-type]
    sizes = {"sequences": SEQUENCES, "capacity": CAPACITY_TOKENS}
    found = {}
    for value in graph.model.graph.inputs:
        name = str(value.name)
        assert value.dtype is not None and value.shape is not None
        shape = [
            one if isinstance(one, int) else sizes.get(str(one.value), 1) for one in value.shape
        ]
        random = draw.standard_normal(shape).astype(value.dtype.numpy())
        found[name] = indexes.get(name, random)
    return found


def _part(
    placements: Mapping[str, Placement], name: str, array: np.ndarray, rank: int
) -> np.ndarray:
    """A rank's part of an array; the whole of one that has no placement."""
    if name not in placements:
        return array
    return WeightPart(name, ir.tensor(array), placements[name], rank).array()
