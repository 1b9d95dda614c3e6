"""Trials of slicing: one network planned for some ranks, run in lockstep and by real ranks,
described as a row."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir
from slicing_layers import NamedLayers
from slicing_lockstep import LockstepRun, predicted

from rankmesh.comm.errors import ModelError
from rankmesh.comm.processes.shard_trial import ShardTrial
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.slicing.emission.feeds import random_feeds
from rankmesh.compiler.slicing.emission.rank_proof import WrittenShards, prove_by_ranks
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.emission.trial import relative_error, run_model
from rankmesh.compiler.slicing.emission.verify import Proof, tolerance
from rankmesh.compiler.slicing.emission.write import write_shard
from rankmesh.compiler.slicing.placement.placements import WHOLE
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import weight_bytes
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.slicing.planning.stage_weights import rank_bytes
from rankmesh.compiler.slicing.search.choice_task import Choice
from rankmesh.compiler.slicing.search.choose import choose_plan
from rankmesh.compiler.slicing.slicing_plan import SlicingPlan
from rankmesh.compiler.source_graph.source_graph import SourceGraph, source_model

BARS = {"fp32": 1e-5, "half": 4e-3, "quantised": 2e-2}
"""Largest difference to largest value. Half has a step of 1e-3; where activations are quantised,
a sum in another order can move a number by one of 255 steps."""

_SEED = 14
_LARGE = 1 << 30
"""Bytes of weights above which a plan is made and not run: all ranks together would not fit."""

Row = dict[str, Any]


class NetworkTrial:
    """A network of the corpus: its graph, its example inputs, and its unsliced results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        record = path.with_suffix(".json")
        self.record: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
        self._choices: dict[int, Choice] = {}

    @cached_property
    def graph(self) -> SourceGraph:
        """The graph, as the planner sees it."""
        return source_graph(source_model(load_model(str(self.path))), str(self.path))

    @cached_property
    def examples(self) -> list[tuple[dict[str, np.ndarray], list[np.ndarray]]]:
        """Inputs and the unsliced results: the corpus's own, then other sizes of open axes."""
        found = []
        for index, feeds in enumerate(self._inputs()):
            try:
                found.append((feeds, run_model(self.graph.model.clone(), feeds)))
            except ModelError:
                if index == 0:  # not every network takes every other size
                    raise
        return found

    @cached_property
    def taken_sizes(self) -> Sequence[Mapping[str, int]]:
        """The choices of sizes that the unsliced network takes with random inputs: a table of
        positions may be shorter than others.
        """
        found = []
        for index, sizes in enumerate(self.graph.size_choices):
            try:
                run_model(self.graph.model.clone(), random_feeds(self.graph, sizes, index))
            except ModelError:
                continue
            found.append(sizes)
        return found or self.graph.size_choices

    def _inputs(self) -> Iterator[dict[str, np.ndarray]]:
        names = [str(value.name) for value in self.graph.model.graph.inputs]
        with np.load(self.path.with_suffix(".npz")) as data:
            own = {name: data[name] for name in data.files}
        yield {name: own[name if name in own else f"in_{at}"] for at, name in enumerate(names)}
        fields = self.record.get("inputs", {})
        if not self.record.get("dynamic") or not set(names) <= set(fields):
            return
        known = self.record["sizes"]
        for sizes in (self.record.get("other_sizes"), {"batch": 1, "sequence": 7}):
            if sizes:
                yield {name: _drawn(fields[name], {**known, **sizes}) for name in names}

    @cached_property
    def precision(self) -> str:
        """What the bar of the error depends on."""
        operators = {node.op_type for node in self.graph.model.graph.all_nodes()}
        if any("Quantize" in one or one.startswith("QLinear") for one in operators):
            return "quantised"
        kinds = {value.dtype for value in self.graph.weights.values()}
        halves = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
        return "half" if kinds & halves else "fp32"

    @cached_property
    def layers(self) -> NamedLayers:
        """The layers of the network."""
        return NamedLayers(self.graph)

    def errors(self, run: LockstepRun) -> list[float]:
        """The largest error of all ranks, for each example."""
        return [
            max(relative_error(got, want) for got in run.results(feeds))
            for feeds, want in self.examples
        ]

    def state(self, errors: list[float]) -> str:
        """`right`, or `wrong` where an error is above the bar."""
        return "right" if max(errors) <= BARS[self.precision] else "wrong"

    def choice(self, ranks: int, seconds: float) -> Choice:
        """The plan for the ranks of a stage; stages of a pipeline take that of one stage."""
        if ranks not in self._choices:
            self._choices[ranks] = choose_plan(self.graph, ranks, seconds=seconds)
        return self._choices[ranks]

    def sliced(self, trial: str, ranks: int, seconds: float) -> Row:
        """The row of the plan for some ranks: of one stage, or of a pipeline."""
        begun = time.monotonic()
        stages = (2 if ranks % 2 == 0 else ranks) if trial == "pipeline" else 1
        choice = self.choice(ranks // stages, seconds)
        plan = with_stages(self.graph, choice.plan, stages) if stages > 1 else choice.plan
        taken = time.monotonic() - begun
        weights = _weights(self.graph, choice, ranks // stages)
        if stages > 1:
            heaviest = max(SlicingPlan("", self.graph, plan, {}).weight_bytes)
            share = heaviest * ranks / weights["weights"] if weights["weights"] else None
            weights |= {"share": share and round(share, 4), "splittable_share": None}
        return {
            "stages": stages,
            "precision": self.precision,
            "plan_seconds": round(taken, 2),
            "gap": round(choice.gap, 5)
            if choice.gap is not None and isfinite(choice.gap)
            else None,
            "unknown": list(choice.unknown),
            "nodes": len(self.graph.nodes),
            **weights,
            **self._ran(plan, trial != "plan" and weights["weights"] <= _LARGE),
        }

    def _ran(self, plan: SlicePlan, runs: bool) -> Row:
        """The results of a plan, with the collectives that were predicted and that were counted."""
        aim = predicted(self.graph, plan)
        row: Row = {
            "state": "planned",
            "errors": [],
            "collectives": aim.kinds,
            "bytes": aim.nbytes,
            "layers": self.layers.count,
            "per_layer": self.layers.exchanged(plan) if plan.stages == 1 else None,
        }
        if runs:
            run = LockstepRun(self.graph, plan)
            errors = self.errors(run)
            row |= {"state": self.state(errors), "errors": errors}
            row |= self._counted(run)
            row |= self._by_ranks(plan)
        return row

    def _by_ranks(self, plan: SlicePlan) -> Row:
        """Real ranks run the shards, as they do before `rankmesh slice` keeps them."""
        proof = Proof("full", tolerance(self.graph), sizes=self.taken_sizes)
        with TemporaryDirectory() as folder, ShardTrial() as trial:
            stem = Path(folder) / "network"
            for rank in range(plan.world_size):
                write_shard(self.graph, plan, rank, stem, "bench")
            needed = SlicingPlan("", self.graph, plan, {}).needed_bytes
            shards = WrittenShards(self.graph, f"{stem}_rank{{rank}}.onnx", needed)
            try:
                return {"by_ranks": prove_by_ranks(shards, proof, trial).text}
            except ModelError as error:
                return {"state": "unrun", "reason": shortened(error)}

    def _counted(self, run: LockstepRun) -> Row:
        """The collectives of the emitted graphs, at the sizes that predictions are for."""
        try:
            counted = run.exchange(self.usual_feeds)
        except ModelError:  # random numbers of these sizes are no inputs of the network
            return {}
        return {"counted": counted.kinds, "counted_bytes": counted.nbytes}

    @cached_property
    def usual_feeds(self) -> dict[str, np.ndarray]:
        """Inputs of the sizes that predictions are for."""
        if self.graph.choices == 1:
            return self.examples[0][0]
        return random_feeds(self.graph, self.graph.size_choices[0])

    def fuzzed(self, ranks: int, seeds: range) -> Row:
        """How many random plans were right, and the seeds of those that were not."""
        found = propagate(self.graph, ranks)
        bad: dict[str, str] = {}
        other: dict[str, str] = {}
        worst = 0.0
        for seed in seeds:
            try:
                plan = random_plan(self.graph, found, ranks, seed)
                run = LockstepRun(self.graph, plan)
                errors = self.errors(run)
                counted, aim = self._counted(run), predicted(self.graph, plan)
            except Exception as error:  # whatever a plan meets is what is looked for
                bad[str(seed)] = shortened(error)
                continue
            worst = max(worst, *errors)
            if self.state(errors) == "wrong":
                bad[str(seed)] = f"error {max(errors):.1e}"
            if counted and counted != {"counted": aim.kinds, "counted_bytes": aim.nbytes}:
                other[str(seed)] = f"{counted}, predicted {aim}"
        return {
            "state": "wrong" if bad else "right",
            "errors": [worst],
            "precision": self.precision,
            "plans": len(seeds),
            "bad": bad,
            "miscounted": other,
        }


def shortened(error: Exception) -> str:
    """An error as the reason in a row."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def _weights(graph: SourceGraph, choice: Choice, ranks: int) -> Row:
    """The weights of the heaviest rank, in parts of 1/N: of those that have axes to split, of all.

    A matrix can be split whether or not a rule is there that does it. Tables of whole numbers, such
    as positions, are none.
    """
    sizes = {name: weight_bytes(value, WHOLE) for name, value in graph.weights.items()}
    wide = {
        name
        for name, value in graph.weights.items()
        if sum(size > 1 for size in value.shape or ()) > 1
        and max(value.shape or (0,)) >= ranks
        and value.dtype not in (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)
    }
    layout = stage_layout(graph, choice.plan)
    heaviest = max(
        sum(nbytes for (name, _), nbytes in one.items() if name in wide)
        for one in rank_bytes(graph, choice.plan, layout)
    )
    total, splittable = sum(sizes.values()), sum(sizes[name] for name in wide)
    return {
        "weights": total,
        "share": round(choice.prediction.heaviest * ranks / total, 4) if total else None,
        "splittable_share": round(heaviest * ranks / splittable, 4) if splittable else None,
    }


def _drawn(field: Mapping[str, Any], sizes: Mapping[str, int]) -> np.ndarray:
    """Numbers for an input, as slicing_networks/writing.py draws them."""
    draw = np.random.default_rng(_SEED)
    shape = [_resolved(size, sizes) for size in field["shape"]]
    dtype = np.dtype(field["dtype"])
    match field["draw"]:
        case "ids":
            return draw.integers(0, field["high"], shape).astype(dtype)
        case "mask" | "ones":
            mask = np.ones(shape, dtype)
            if field["draw"] == "mask" and len(shape) == 2 and min(shape) > 1:
                mask[-1, -1] = 0
            return mask
        case "positions":
            return np.broadcast_to(np.arange(shape[-1]) + sizes.get("past", 0), shape).astype(dtype)
        case "zeros":
            return np.zeros(shape, dtype)
        case "boxes":
            boxes = draw.integers(0, field["high"] // 2, shape)
            boxes[..., 2:] += boxes[..., :2]
            return boxes.astype(dtype)
    return draw.standard_normal(shape).astype(dtype)


def _resolved(size: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return sum(int(one) if one.isdigit() else sizes[one] for one in size.split("+"))
