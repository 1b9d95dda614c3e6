"""`rankmesh inspect`: the description of model files and of configurations, and its printing."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...comm.errors import ModelError
from ...comm.job.shard import find_shards
from ...comm.job_memory.progress import Stage
from ...comm.text import counted, show
from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.loaded_model import LoadedModel
from ...compiler.model_file.model_assets import NO_ASSETS, ModelAssets
from ...compiler.model_file.model_format import format_of
from ...compiler.onnx_graph.collective_nodes import Groups, places
from ...compiler.onnx_graph.onnx_values import tensor_bytes
from ...worker.api_types.config_keys import Effect, key_effect
from ...worker.partition.cut import make_plan
from ...worker.partition.fingerprint import Operand
from ...worker.partition.plan import CollectiveStep, Plan, Signature
from ...worker.session.loading_line import LoadingLine
from ..options.user_files import read_config
from .weights import add_slices, listed_weights, weight_lines

if TYPE_CHECKING:
    from ...compiler.right_sizes.default_shapes import DefaultShapes
    from ...compiler.right_sizes.right_sizes import RightSize

_SHOWN = 12
_MOST_TRIED = 64
"""Ranks that are tried for a lone file until its plan fits. The first does, unless it is the root
of a collective.
"""
Place = tuple[int, int]


def inspect_model(
    model: str,
    as_json: bool,
    decryption: Decryption | None = None,
    config: str | None = None,
    all_weights: bool = False,
) -> None:
    """Print the description of every file that MODEL names; `decryption` opens encrypted files.

    The configuration file `config` may name assets of the model. All weights are printed with
    `all_weights`, else the first 12. Raises the errors of comm/errors.py.
    """
    shards = find_shards(model)
    assets = ModelAssets.of(read_config(config)) if config else NO_ASSETS
    described = []
    with LoadingLine(model) as line:
        for rank in range(shards.count):
            line.enter(Stage.READING, shards.path(rank))
            place = (rank, shards.count) if shards.numbered else None
            described.append(describe(shards.path(rank), place, decryption, assets))
    if shards.numbered:
        add_slices(described)
    if as_json:
        json.dump(described, sys.stdout, indent=1)
        print()
        return
    for one in described:
        _print(one)
    _print_weights(described, all_weights)


def describe(
    path: str,
    place: Place | None = None,
    decryption: Decryption | None = None,
    assets: ModelAssets = NO_ASSETS,
) -> dict[str, Any]:
    """One file as plain data, with a list of what is not supported instead of a plan.

    `place` is its rank and world size; without it they are derived from the collectives in the
    file.
    """
    found = format_of(path)
    survey = found.survey(path, decryption, assets.folder)
    sizes = [tensor_bytes(record) for record in survey.weights]
    return {
        "file": path,
        "format": found.name,
        "producer": survey.producer,
        "parameters": len(sizes),
        "parameter_bytes": sum(sizes),
        "weights": listed_weights(survey),
        "primitives": dict(survey.primitives.most_common()),
        "unsupported": dict(survey.unsupported),
        **({} if survey.unsupported else _planned(survey.load(), place, assets.groups)),
        **({} if survey.user_info is None else {"user_info": dict(survey.user_info)}),
    }


def _planned(loaded: LoadedModel, place: Place | None, groups: Groups) -> dict[str, Any]:
    plan = _plan(loaded, place, groups)
    found = _right_sizes(loaded, plan)
    return {
        "inputs": [_signature(s, found.fixed.get(s.name)) for s in plan.inputs],
        "outputs": [_signature(s, found.fixed.get(s.name)) for s in plan.outputs],
        "collectives": [_collective(step, plan) for step in plan.collectives],
        "segments": [
            {
                "nodes": len(step.model.graph.node),
                "inputs": list(step.inputs),
                "outputs": list(step.outputs),
            }
            for step in plan.segments
        ],
        **({"right_sizes": [_right_size(one) for one in found.right]} if found.right else {}),
    }


def _right_sizes(loaded: LoadedModel, plan: Plan) -> DefaultShapes:
    """The sizes that are the only ones for dimensions that the file leaves open."""
    from ...compiler.right_sizes.default_shapes import DefaultShapes, default_shapes

    if all(min(one.type.shape or (), default=0) >= 0 for one in plan.inputs):
        return DefaultShapes()
    return default_shapes(loaded)


def _right_size(one: RightSize) -> dict[str, Any]:
    return {"dimension": one.name, "size": one.size, "or_one": one.or_one, "node": one.node}


def _plan(loaded: LoadedModel, place: Place | None, groups: Groups) -> Plan:
    """The plan for a place, else for the first place that the file fits."""
    candidates = (
        [place]
        if place
        else [*islice(places(loaded.model.graph, loaded.path, groups), _MOST_TRIED)]
    )
    for candidate in candidates[:-1]:
        try:
            return make_plan(loaded, *candidate, groups)
        except ModelError:
            continue
    return make_plan(loaded, *candidates[-1], groups)


def _signature(signature: Signature, right: tuple[int, ...] | None = None) -> dict[str, Any]:
    shape = right or signature.type.shape
    return {
        "name": signature.name,
        "dtype": signature.type.dtype.name,
        "shape": None if shape is None else list(shape),
        **({} if signature.has_result else {"has_result": False}),
        **({} if signature.default is None else {"optional": True}),
    }


def _collective(step: CollectiveStep, plan: Plan) -> dict[str, Any]:
    call = step.call
    operands = [str(Operand(plan.types[n].dtype.name, plan.types[n].shape)) for n in step.inputs]
    return {
        "kind": call.kind.value,
        "node": call.node,
        "group": call.group.name,
        "ranks": _listed(call.group.ranks),
        "operands": operands,
    }


@lru_cache(64)
def _listed(ranks: tuple[int, ...]) -> list[int]:
    """The ranks as a list, one for all collectives of a group: there may be thousands of both."""
    return list(ranks)


def _print(one: dict[str, Any]) -> None:
    show(f"{one['file']}: {one['format']}, {one['producer'] or 'unknown producer'}")
    show(f"  parameters: {one['parameters']}, {one['parameter_bytes'] / 1e6:.3f} MB")
    for kind in ("inputs", "outputs"):
        for item in one.get(kind, ()):
            note = "" if item.get("has_result", True) else " (no result on this rank)"
            shape = "[?]" if item["shape"] is None else item["shape"]
            show(f"  {kind[:-1]}: {item['name']} {item['dtype']}{shape}{note}")
    for item in one.get("right_sizes", ()):
        other = " or 1" if item["or_one"] else ""
        show(
            f"  dimension {item['dimension']}: {item['size']}{other}, as {item['node']} takes no "
            "other size"
        )
    show(
        "  primitives: " + ", ".join(f"{name} {count}" for name, count in one["primitives"].items())
    )
    for item in one.get("collectives", ())[:_SHOWN]:
        show(
            f"  collective: {item['kind']} {', '.join(item['operands'])} among ranks "
            f"{item['ranks']} (group {item['group']!r}, node {item['node']})"
        )
    if len(one.get("collectives", ())) > _SHOWN:
        show(f"  ... {len(one['collectives']) - _SHOWN} more collectives (--json lists all)")
    if "segments" in one:
        show(
            f"  plan: {counted(len(one['segments']), 'segment')} of "
            f"{[s['nodes'] for s in one['segments']]} nodes, "
            f"{counted(len(one['collectives']), 'collective')} between them"
        )
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


def inspect_config(path: str, as_json: bool) -> None:
    """Print the effect of each key of the .ini file; UsageError where the file cannot be read."""
    config = read_config(path)
    described = [
        {
            "section": section,
            "key": key,
            "value": value,
            "effect": found.effect.value,
            "note": found.note,
        }
        for section, entries in config.sections.items()
        for key, value in entries.items()
        for found in [key_effect(section, key)]
    ]
    if as_json:
        print(json.dumps({"file": path, "keys": described}, indent=1))
        return
    for effect in Effect:
        group = [one for one in described if one["effect"] == effect.value]
        if group:
            show(f"{effect.value}:")
        for one in group:
            show(f"  [{one['section']}] {one['key']} = {one['value']}  ({one['note']})")
    if not described:
        show(f"{path}: holds no section with a key")
