"""`rankmesh inspect`: what model files take, give, hold and use, and how their ranks would run them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import Any

from ..comm.context import Context
from ..comm.counted import counted
from ..comm.errors import ModelError
from ..comm.progress import Stage
from ..comm.shard import find_shards
from ..comm.visible import show
from ..worker.collective_nodes import Groups, places
from ..worker.companions import NO_COMPANIONS, Companions
from ..worker.cut import make_plan
from ..worker.fingerprint import Operand
from ..worker.loading_line import LoadingLine
from ..worker.mindir.crypto import Decryption
from ..worker.mindir.graph import Model
from ..worker.onnx_functions import inlined
from ..worker.onnx_values import tensor_bytes
from ..worker.pivot import Pivot, is_onnx, load_pivot, pivot_of
from ..worker.plan import Exchange, Plan, Segment, Signature
from .config_file import read_config
from .inspect_weights import mindir_weights, onnx_weights
from .slices import add_slices, weight_lines

_SHOWN = 12
_MOST_TRIED = 64
"""Ranks for which a lone file is planned until one fits: the first does, unless it is the root of a collective."""
Place = tuple[int, int]


def inspect(model: str, as_json: bool, decryption: Decryption | None = None, config: str | None = None,
            all_weights: bool = False) -> None:
    """Print the description of every file that MODEL names; `decryption` opens encrypted ones.

    The configuration file `config` may name what lies beside the model. Of the weights the first 12 are printed, or
    `all_weights`. Raises the errors of comm/errors.py.
    """
    shards = find_shards(model)
    companions = Companions.of(Context(), read_config(config)) if config else NO_COMPANIONS
    described = []
    with LoadingLine(model) as line:
        for rank in range(shards.count):
            line.enter(Stage.READING, shards.path(rank))
            place = (rank, shards.count) if shards.numbered else None
            described.append(describe(shards.path(rank), place, decryption, companions))
    if shards.numbered:
        add_slices(described)
    if as_json:
        json.dump(described, sys.stdout, indent=1)
        print()
        return
    for one in described:
        _print(one)
    _print_weights(described, all_weights)


def describe(path: str, place: Place | None = None, decryption: Decryption | None = None,
             companions: Companions = NO_COMPANIONS) -> dict[str, Any]:
    """One file as plain data; what is not supported is listed instead of a plan.

    `place` is its rank and world size; without it they are guessed from the collectives in the file. `companions` is
    what lies beside the file.
    """
    if is_onnx(path):
        pivot = load_pivot(path, decryption, companions.folder)
        used = Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in pivot.model.graph.node)
        return {"file": path, "format": "ONNX", "producer": pivot.model.producer_name, **_parameters(pivot),
                "weights": onnx_weights(pivot), "primitives": dict(used.most_common()), "unsupported": {},
                **_planned(pivot, place, companions.groups)}
    return _describe_mindir(path, place, decryption, companions)


def _describe_mindir(path: str, place: Place | None, decryption: Decryption | None,
                     companions: Companions) -> dict[str, Any]:
    from ..worker.lowering.walk import unsupported
    from ..worker.mindir.reader import read_model

    model = read_model(path, decryption, companions.folder)
    missing = unsupported(model)
    sizes = [weight.length for weight in model.weights.values()]
    return {"file": path, "format": "MindIR", "producer": model.producer, "parameters": len(sizes),
            "parameter_bytes": sum(sizes), "weights": mindir_weights(model),
            "primitives": dict(_primitives(model).most_common()), "unsupported": missing,
            **({} if missing else _planned(pivot_of(model), place, companions.groups)),
            "user_info": dict(model.user_info)}


def _primitives(model: Model) -> Counter[str]:
    return Counter(node.primitive or "(call)" for graph in (model.entry, *model.functions.values())
                   for node in graph.nodes)


def _parameters(pivot: Pivot) -> dict[str, int]:
    sizes = [tensor_bytes(tensor) for tensor in pivot.model.graph.initializer]
    return {"parameters": len(sizes), "parameter_bytes": sum(sizes)}


def _planned(pivot: Pivot, place: Place | None, groups: Groups) -> dict[str, Any]:
    plan = _plan(Pivot(inlined(pivot.model, pivot.path), pivot.path), place, groups)
    return {"inputs": [_signature(s) for s in plan.inputs], "outputs": [_signature(s) for s in plan.outputs],
            "collectives": [_collective(step, plan) for step in plan.exchanges],
            "segments": [_segment(step) for step in plan.segments]}


def _plan(pivot: Pivot, place: Place | None, groups: Groups) -> Plan:
    """The plan for a place, else for the first that the file fits."""
    candidates = [place] if place else [*islice(places(pivot.model.graph, pivot.path, groups), _MOST_TRIED)]
    for candidate in candidates[:-1]:
        try:
            return make_plan(pivot, *candidate, groups)
        except ModelError:
            continue
    return make_plan(pivot, *candidates[-1], groups)


def _signature(signature: Signature) -> dict[str, Any]:
    shape = signature.type.shape
    return {"name": signature.name, "dtype": signature.type.dtype.name, "shape": None if shape is None else list(shape),
            **({} if signature.has_result else {"has_result": False})}


def _collective(step: Exchange, plan: Plan) -> dict[str, Any]:
    call = step.call
    operands = [str(Operand(plan.types[n].dtype.name, plan.types[n].shape)) for n in step.inputs]
    return {"kind": call.kind.value, "node": call.node, "group": call.group.name, "ranks": _listed(call.group.ranks),
            "operands": operands}


@lru_cache(64)
def _listed(ranks: tuple[int, ...]) -> list[int]:
    """As a list, one for all collectives of a group: there may be thousands of both."""
    return list(ranks)


def _segment(step: Segment) -> dict[str, Any]:
    return {"nodes": len(step.model.graph.node), "inputs": list(step.inputs), "outputs": list(step.outputs)}


def _print(one: dict[str, Any]) -> None:
    show(f"{one['file']}: {one['format']}, {one['producer'] or 'unknown producer'}")
    show(f"  parameters: {one['parameters']}, {one['parameter_bytes'] / 1e6:.3f} MB")
    for kind in ("inputs", "outputs"):
        for item in one.get(kind, ()):
            note = "" if item.get("has_result", True) else " (no result on this rank)"
            shape = "[?]" if item["shape"] is None else item["shape"]
            show(f"  {kind[:-1]}: {item['name']} {item['dtype']}{shape}{note}")
    show("  primitives: " + ", ".join(f"{name} {count}" for name, count in one["primitives"].items()))
    for item in one.get("collectives", ())[:_SHOWN]:
        show(f"  collective: {item['kind']} {', '.join(item['operands'])} among ranks {item['ranks']} "
             f"(group {item['group']!r}, node {item['node']})")
    if len(one.get("collectives", ())) > _SHOWN:
        show(f"  ... {len(one['collectives']) - _SHOWN} more collectives (--json lists all)")
    if "segments" in one:
        show(f"  plan: {counted(len(one['segments']), 'segment')} of {[s['nodes'] for s in one['segments']]} nodes, "
             f"{counted(len(one['collectives']), 'collective')} between them")
    for name, where in one["unsupported"].items():
        show(f"  UNSUPPORTED: {name} ({len(where)}): {', '.join(where[:4])}")
    for key, value in one.get("user_info", {}).items():
        show(f"  user info: {key} = {value}")


def _print_weights(described: list[dict[str, Any]], all_of_them: bool) -> None:
    lines = weight_lines(described)
    shown = lines if all_of_them else lines[:_SHOWN]
    if len(described) > 1 and lines:
        show(f"weights of {len(described)} ranks:")
    for line in shown:
        show(f"  weight: {line}")
    if len(shown) < len(lines):
        show(f"  ... {len(lines) - len(shown)} more weights (--weights shows all)")
