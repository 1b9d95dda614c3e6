"""Plan files: a slice plan as JSON, which users read, edit and give back.

Nodes that the file does not list are computed whole on every rank.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ....comm.decoding import guarded
from ....comm.errors import UsageError
from ....comm.host.regular_file import read_regular
from ....comm.limits import MOST_SLICES
from .operator_node import Strategy
from .placement_text import placement_of
from .placements import WHOLE
from .slice_plan import Conversion, SlicePlan

FORMAT = "rankmesh slice plan 1"
_LARGEST = 256 << 20


class PlannedNode(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A node of a plan file: its operator, for the reader, and the placements of its operands.

    Without placements it is computed whole on every rank of its stage; `stage` is "every" for a
    node that each stage computes for itself.
    """

    inputs: list[str] = []
    outputs: list[str] = []
    operator: str = ""
    stage: int | Literal["every"] = 0


class PlannedConversion(msgspec.Struct, forbid_unknown_fields=True):
    """A conversion of a plan file: the value, and its placement before and after."""

    value: str
    before: str
    after: str


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a plan file.

    `fingerprint` is that of the model's graph; `sizes` has the usual sizes of open dimensions.
    """

    format: str
    model: str
    fingerprint: str
    ranks: int
    nodes: dict[str, PlannedNode]
    conversions: list[PlannedConversion]
    stages: int = 1
    sizes: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A slice plan with the model that it is for: its name, and the fingerprint of its graph.

    `operators` has the operator of each node that the file names, where it gives one.
    """

    plan: SlicePlan
    model: str
    fingerprint: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, str] = field(default_factory=dict)


def plan_text(file: PlanFile, operators: Mapping[str, str]) -> str:
    """The JSON of a plan, one node a line; `operators` has the operator of each node."""
    plan = file.plan
    head = {
        "format": FORMAT,
        "model": file.model,
        "fingerprint": file.fingerprint,
        "ranks": plan.ranks,
        "stages": plan.stages,
        "sizes": dict(file.sizes),
    }
    nodes = [
        f"    {json.dumps(name)}: {json.dumps(_planned(plan, name, operators.get(name, '')))}"
        for name in dict.fromkeys((*plan.strategies, *plan.stage_of, *sorted(plan.everywhere)))
        if _is_split(plan, name) or _stage(plan, name)
    ]
    conversions = [
        "    "
        + json.dumps({"value": one.value, "before": str(one.before), "after": str(one.after)})
        for one in plan.conversions
    ]
    fields = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    fields.append('  "nodes": {\n' + ",\n".join(nodes) + "\n  }")
    fields.append('  "conversions": [\n' + ",\n".join(conversions) + "\n  ]")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _is_split(plan: SlicePlan, name: str) -> bool:
    """Whether a node is not computed whole on the ranks of its stage."""
    found = plan.strategies.get(name)
    return found is not None and any(one != WHOLE for one in (*found.inputs, *found.outputs))


def _stage(plan: SlicePlan, name: str) -> int | str:
    return "every" if name in plan.everywhere else plan.stage(name)


def _planned(plan: SlicePlan, name: str, operator: str) -> dict[str, object]:
    found: dict[str, object] = {"operator": operator}
    if _is_split(plan, name):
        strategy = plan.strategies[name]
        found["inputs"] = [str(one) for one in strategy.inputs]
        found["outputs"] = [str(one) for one in strategy.outputs]
    return {**found, "stage": _stage(plan, name)} if _stage(plan, name) else found


def read_plan(path: str) -> PlanFile:
    """Read a plan file; UsageError names the file, and the node or field that is wrong."""
    try:
        return plan_of(read_regular(path, _LARGEST), path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error


def plan_of(data: bytes, path: str) -> PlanFile:
    """The plan in the JSON of a plan file; errors as those of read_plan."""
    try:
        found = _DECODER(data)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path}: is no plan: {error}. `rankmesh slice --dry-run -o FOLDER` writes one."
        ) from error
    if found.format != FORMAT:
        raise UsageError(f"{path}: has the format {found.format!r}, expected {FORMAT!r}.")
    if not 1 <= found.ranks <= MOST_SLICES or not 1 <= found.stages <= MOST_SLICES:
        raise UsageError(
            f"{path}: is for {found.stages} stages of {found.ranks} ranks, expected 1 to "
            f"{MOST_SLICES} of each."
        )
    strategies = {
        name: Strategy(
            _placements(path, name, "inputs", node.inputs, found.ranks),
            _placements(path, name, "outputs", node.outputs, found.ranks),
        )
        for name, node in found.nodes.items()
        if node.inputs or node.outputs
    }
    stage_of = _stages(path, found)
    everywhere = frozenset(name for name, node in found.nodes.items() if node.stage == "every")
    conversions = tuple(_conversions(path, found))
    plan = SlicePlan(found.ranks, strategies, conversions, found.stages, stage_of, everywhere)
    operators = {name: node.operator for name, node in found.nodes.items() if node.operator}
    return PlanFile(plan, found.model, found.fingerprint, found.sizes, operators)


def _stages(path: str, found: PlanDocument) -> dict[str, int]:
    """The stages of nodes that are not in the first one."""
    stages: dict[str, int] = {}
    for name, node in found.nodes.items():
        if isinstance(node.stage, int) and node.stage:
            if not 0 <= node.stage < found.stages:
                raise UsageError(
                    f"{path}: node {name}: stage {node.stage} of {found.stages} stages."
                )
            stages[name] = node.stage
    return stages


def _placements(path: str, name: str, what: str, texts: Sequence[str], ranks: int) -> tuple:  # type: ignore[type-arg]
    try:
        return tuple(placement_of(text, ranks) for text in texts)
    except ValueError as error:
        raise UsageError(f"{path}: node {name}: {what}: {error}.") from error


def _conversions(path: str, found: PlanDocument) -> list[Conversion]:
    try:
        return [
            Conversion(
                one.value,
                placement_of(one.before, found.ranks),
                placement_of(one.after, found.ranks),
            )
            for one in found.conversions
        ]
    except ValueError as error:
        raise UsageError(f"{path}: conversions: {error}.") from error


_DECODER = guarded(msgspec.json.Decoder(PlanDocument))
