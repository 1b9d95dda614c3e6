"""Slicer: plans the slices of a model file, proves them, and writes the shards.

The calls that users make: `plan_slices` and `slice_model`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from ...comm.errors import UsageError
from ...comm.job.names import require_utf8_path
from ...comm.limits import MOST_SLICES, require_at_most
from ...comm.serving.weight_slices import WEIGHTS
from ...comm.text import counted
from ..model_file.refused_model import refused_by_onnxruntime
from .sources import read_source, require_onnxruntime, require_packages, stem_of

if TYPE_CHECKING:
    from pathlib import Path

    from ...comm.processes.shard_trial import ShardTrial
    from ..source_graph.source_graph import SourceGraph
    from .emission.rank_proof import RankProof
    from .emission.verify import Proof
    from .emission.write import Shard
    from .placement.operator_node import Strategy
    from .placement.slice_plan import SlicePlan
    from .slicing_plan import SlicingPlan

VERIFICATIONS = ("blocks", "full", "none")
_SECONDS = 30.0

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class PlanGoal:
    """The plan that is wanted; the fields are those of `plan_slices`."""

    ranks: int
    memory: int | None = None
    stages: int = 1
    sizes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = _SECONDS

    def __post_init__(self) -> None:
        """Raise UsageError for numbers of ranks and stages that cannot be."""
        require_at_most("ranks of slices", self.ranks, MOST_SLICES)
        if self.ranks < 1 or self.stages < 1 or self.ranks % self.stages:
            raise UsageError(
                f"{counted(self.ranks, 'rank')} in {counted(self.stages, 'stage')}: expected at "
                "least 1 of each, and as many ranks in each stage."
            )


@dataclass(frozen=True, slots=True)
class SlicingReport:
    """The shards that were written; `print` shows all of it.

    `files` has the file of each rank, `nbytes` its size with the weights, `collectives` the nodes
    of each kind; `error` is the largest relative error of the proof, None without one. `proof` says
    how far the shards are proved: "ranks" have run them together, "lockstep only", or
    "not verified".
    """

    folder: str
    files: tuple[str, ...]
    nbytes: tuple[int, ...]
    collectives: tuple[Mapping[str, int], ...]
    verification: str
    error: float | None
    plan: str
    proof: str

    @property
    def pattern(self) -> str:
        """The MODEL that `rankmesh run` takes."""
        return self.files[0].replace("_rank0.onnx", "_rank{rank}.onnx")

    def __str__(self) -> str:
        from .planning.explain import size_text

        lines = [self.plan, ""]
        for path, nbytes, counts in zip(self.files, self.nbytes, self.collectives, strict=True):
            calls = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) or "none"
            lines.append(f"{os.path.basename(path)}: {size_text(nbytes)}; collectives: {calls}")
        return "\n".join([*lines, self.verification])


def plan_slices(
    path: str,
    ranks: int,
    memory: int | None = None,
    *,
    stages: int = 1,
    sizes: Mapping[str, int] | None = None,
    seconds: float = _SECONDS,
    progress: Progress | None = None,
) -> SlicingPlan:
    """Plan the slices of the ONNX or MindIR model at `path` for `ranks` ranks.

    `memory` is the most bytes that a rank may need for weights and activations; by default all
    ranks hold about equally few weights. `stages` makes a pipeline of so many stages, which divide
    the ranks. `sizes` has the usual sizes of open dimensions, by name. The search takes about
    `seconds` at most; `progress` is told of its steps. Raises ModelError for a model that cannot be
    sliced, and UsageError.
    """
    require_packages()
    goal = PlanGoal(ranks, memory, stages, sizes or {}, seconds)
    if progress is not None:
        progress("plan", 0, 1)
    with refused_by_onnxruntime(path):
        return plan_graph(read_source(path, sizes), path, goal, progress)


def plan_graph(
    graph: SourceGraph, path: str, goal: PlanGoal, progress: Progress | None = None
) -> SlicingPlan:
    """Plan the slices of a graph; see plan_slices. `path` names it, and its shards."""
    from .annotation.fixed_nodes import fixed_nodes
    from .planning.host_costs import plan_costs
    from .search.solver_package import why_no_solver
    from .search.staged_choice import choose_staged
    from .slicing_plan import SlicingPlan

    ranks, memory = goal.ranks, goal.memory
    each = ranks // goal.stages
    fixed_by = fixed_nodes(graph, each, goal.stages, path)
    costs = plan_costs(ranks).together
    told = progress or _silent
    step = _stepwise(told)
    choice = choose_staged(graph, each, goal.stages, memory, goal.seconds, costs, fixed_by, step)
    told("plan", 1, 1)
    plan = replace(choice.plan, strategies=_in_order(graph, choice.plan))
    by_rank = choice.prediction.needed
    needed = max(by_rank)
    note = why_no_solver() if choice.search == "greedy" else ""
    if memory is not None and needed > memory:
        rank = by_rank.index(needed)
        raise UsageError(
            f"{path}: rank {rank} of {ranks} needs {needed:,} bytes for weights and activations, "
            f"and may have {memory:,}. Plan more ranks or more memory."
            + (f" {note[0].upper()}{note[1:]}." if note else "")
        )
    how = choice.gap, tuple(choice.unknown), choice.search, note
    return SlicingPlan(path, graph, plan, goal.sizes, *how)


def _silent(what: str, done: int, of: int) -> None:
    """Show no progress."""


def _stepwise(progress: Progress) -> Callable[[], None]:
    """A function that tells of one more step of a choice; more than usual count as the last."""
    from .search.choose import STEPS

    left = iter(range(1, STEPS + 1))

    def step() -> None:
        progress("plan", next(left, STEPS), STEPS)

    return step


def _in_order(graph: SourceGraph, plan: SlicePlan) -> dict[str, Strategy]:
    """The strategies of a plan, in the order of the graph."""
    names = (str(node.name) for node in graph.nodes)
    return {name: plan.strategies[name] for name in names if name in plan.strategies}


def read_slicing_plan(path: str, plan_file: str) -> SlicingPlan:
    """The plan in a plan file, which may have been edited, for the model at `path`.

    UsageError names the node and the reason where the model cannot be sliced so.
    """
    require_packages()
    from .placement.plan_file import read_plan
    from .slicing_plan import plan_from_file

    return plan_from_file(path, read_source(path, read_plan(plan_file).sizes), plan_file)


def slice_model(
    path: str,
    plan: SlicingPlan | str,
    folder: str,
    verify: str = "blocks",
    force: bool = False,
    progress: Progress | None = None,
    collectives: str = "rankmesh",
) -> SlicingReport:
    """Write the shards of the model at `path` into `folder`, with the plan and a report.

    `plan` is a plan, or the path of a plan file. `verify` proves the shards before they take their
    place: "blocks" block by block, "full" all at once, and then by ranks that run them; "none" not
    at all. ModelError where they compute something else, or ranks cannot load them. `force`
    replaces other shards in the folder. Nothing is left of a slicing that fails. `collectives` says
    which nodes are written: "rankmesh", or "tensorrt" for TensorRT's DistCollective.
    """
    if verify not in VERIFICATIONS:
        raise UsageError(f"verify is '{verify}', expected {', '.join(VERIFICATIONS)}.")
    require_utf8_path(folder)
    require_packages()
    require_onnxruntime()
    from ...comm.processes.shard_trial import ShardTrial
    from .emission.folder import ShardFolder

    chosen = read_slicing_plan(path, plan) if isinstance(plan, str) else plan
    if os.path.abspath(chosen.path) != os.path.abspath(path):
        raise UsageError(f"The plan is for {chosen.path}, and the model is {path}.")
    stem = stem_of(path)
    _check_collectives(chosen, collectives)
    refusals = refused_by_onnxruntime(path)
    with refusals, ShardFolder(folder, stem, force) as target, ShardTrial() as trial:
        shards = _write(chosen, target.aside / stem, progress, collectives)
        proof = _proved(chosen, shards, verify, progress)
        by_ranks = _proved_by_ranks(chosen, target.aside / stem, proof, trial, progress)
        report = _report(chosen, shards, proof, by_ranks, folder)
        _write_notes(target.aside, stem, chosen, shards, report)
        target.publish()
    return report


def _proved(
    plan: SlicingPlan, shards: list[Shard], verify: str, progress: Progress | None
) -> Proof:
    """The proof in lockstep, or none where none is wanted, or ranks alone have states."""
    from .emission.verify import Proof
    from .emission.verify import verify as prove

    if verify == "none" or plan.graph.states:
        return Proof(verify, 0.0)
    return prove(plan.graph, plan.slices, verify, [one.stored for one in shards], progress)


def _write_notes(
    folder: Path, stem: str, plan: SlicingPlan, shards: list[Shard], report: SlicingReport
) -> None:
    """Write the plan, the report, and the slices that the weights of shards are."""
    from .emission.folder import PLAN, REPORT
    from .emission.weight_map import joined

    (folder / PLAN).write_text(plan.to_json(), encoding="utf-8")
    (folder / REPORT).write_text(f"{report}\n", encoding="utf-8")
    slices = joined(stem, [shard.weights for shard in shards])
    (folder / WEIGHTS).write_bytes(msgspec.json.encode(slices))


def _check_collectives(plan: SlicingPlan, collectives: str) -> None:
    """UsageError for nodes that are unknown, or that cannot express the plan."""
    from .emission.write import COLLECTIVES

    if collectives not in COLLECTIVES:
        raise UsageError(f"collectives is '{collectives}', expected {', '.join(COLLECTIVES)}.")
    if collectives == "tensorrt" and plan.slices.stages > 1:
        raise UsageError(
            f"{plan.path}: the plan has {plan.slices.stages} stages, which send each other values, "
            "and TensorRT's DistCollective has no Send: plan one stage, or leave --collectives out."
        )


def _write(
    plan: SlicingPlan, stem: Path, progress: Progress | None, collectives: str
) -> list[Shard]:
    from ..source_graph.structure import slicing_fingerprint
    from .emission.write import write_shard

    fingerprint = slicing_fingerprint(plan.graph, plan.to_json())
    return [
        write_shard(plan.graph, plan.slices, rank, stem, fingerprint, progress, collectives)
        for rank in range(plan.ranks)
    ]


def _proved_by_ranks(
    plan: SlicingPlan, stem: Path, proof: Proof, trial: ShardTrial, progress: Progress | None
) -> RankProof:
    from .emission.rank_proof import WrittenShards, prove_by_ranks
    from .emission.state_proof import prove_states

    told = progress or _silent
    told("run", 0, 1)
    shards = WrittenShards(plan.graph, f"{stem}_rank{{rank}}.onnx", plan.needed_bytes)
    if plan.graph.states and proof.mode != "none":
        found = prove_states(shards, plan.slices, trial)
    else:
        found = prove_by_ranks(shards, proof, trial)
    told("run", 1, 1)
    return found


def _report(
    plan: SlicingPlan, shards: list[Shard], proof: Proof, by_ranks: RankProof, folder: str
) -> SlicingReport:
    return SlicingReport(
        folder,
        tuple(os.path.join(folder, shard.path.name) for shard in shards),
        tuple(shard.nbytes for shard in shards),
        tuple(shard.collectives for shard in shards),
        by_ranks.text if plan.graph.states else f"{proof}; {by_ranks.text}",
        None if proof.mode == "none" else proof.error,
        str(plan),
        by_ranks.reach,
    )
