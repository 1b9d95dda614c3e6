"""The settings of an orchestrator in a YAML file: every fault is named by file, line and path of
the key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

import pydantic

from ...comm.errors import UsageError
from ...comm.text import yes_or_no
from .chain_settings import ChainSettings, StepSettings
from .orchestrator_settings import OrchestratorSettings
from .python_settings import PythonSettings, TensorSettings
from .queue_policy import QueuePolicy
from .setting_checks import SettingFault
from .settings import BatchingSettings, ModelSettings, ServedSettings
from .settings_document import SettingsDocument

_MAX_FAULTS = 10
_KINDS: dict[str | int, type] = {
    "ModelSettings": ModelSettings,
    "PythonSettings": PythonSettings,
    "inputs": TensorSettings,
    "outputs": TensorSettings,
    "ChainSettings": ChainSettings,
    "StepSettings": StepSettings,
    "batching": BatchingSettings,
    "queue": QueuePolicy,
}
"""The kinds of settings, by what stands before their keys where pydantic tells a place."""
_TYPES = ("ModelSettings", "PythonSettings", "ChainSettings", "StepSettings", "str")
_OF_TWO_TYPES = {"cache": "a folder, or off"}
"""Expected values of settings with two types: pydantic tells a fault of these once per type."""


def load_settings(path: str | os.PathLike[str]) -> OrchestratorSettings:
    """Read settings; UsageError names file, line and key of what is wrong.

    Relative paths in the file start at its folder.
    """
    source = os.fspath(path)
    document = SettingsDocument(source)
    try:
        settings = pydantic.TypeAdapter(OrchestratorSettings).validate_json(
            document.data, strict=True
        )
    except pydantic.ValidationError as error:
        raise UsageError(_report(source, document, error)) from None
    folder = os.path.dirname(source)
    return replace(
        settings,
        models=tuple(_placed(model, folder) for model in settings.models),
        key_file=settings.key_file and os.path.join(folder, settings.key_file),
    )


def _placed(model: ServedSettings, folder: str) -> ServedSettings:
    labels = model.labels and {
        name: os.path.join(folder, file) for name, file in model.labels.items()
    }
    if isinstance(model, ChainSettings):
        return replace(model, labels=labels)
    if isinstance(model, PythonSettings):
        return replace(model, path=model.path_in(folder), labels=labels)
    table = model.rank_table and os.path.join(folder, model.rank_table)
    placed = (
        isinstance(model.cache, str)
        and yes_or_no(model.cache) is None
        and not model.cache.startswith("~")
    )
    return replace(
        model,
        path=os.path.join(folder, model.path),
        rank_table=table,
        slice_dir=model.slice_dir and os.path.join(folder, model.slice_dir),
        cache=os.path.join(folder, str(model.cache)) if placed else model.cache,
        labels=labels,
    )


def _report(source: str, document: SettingsDocument, error: pydantic.ValidationError) -> str:
    found = set()
    for one in error.errors(include_url=False):
        fault = one.get("ctx", {}).get("error")
        place = _place(document, one["loc"])
        if place is None:
            continue
        if isinstance(fault, SettingFault):
            place = (*place, fault.key)
        found.add((document.find(place)[0], f"{_dotted(place)}{_text(one, place, fault)}"))
    lines = [f"{source}:{line}: {text}" for line, text in sorted(found)]
    more = [f"and {len(lines) - _MAX_FAULTS} more faults."] if len(lines) > _MAX_FAULTS else []
    return "\n".join(lines[:_MAX_FAULTS] + more)


def _place(document: SettingsDocument, told: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """The place of a fault without the types in between; None where another type is meant.

    A model with the key steps is meant as a chain, one with the key python as a function. The
    document has each step as a mapping.
    """
    place: tuple[str | int, ...] = ()
    for key in told:
        if key not in _TYPES:
            place = (*place, key)
        elif key == "str" and place and place[-1] in _OF_TWO_TYPES:
            break
        elif key == "str" or key != "StepSettings" and key != _kind(document, place):
            return None
    return place[:-1] if len(place) > 1 and place[-2] in _OF_TWO_TYPES else place


def _kind(document: SettingsDocument, place: tuple[str | int, ...]) -> str:
    """The type that the model at a place is meant as."""
    if document.has(place, "steps"):
        return "ChainSettings"
    return "PythonSettings" if document.has(place, "python") else "ModelSettings"


def _text(one: Any, place: Sequence[str | int], fault: Exception | None) -> str:
    if isinstance(fault, SettingFault):
        return fault.text
    if one["type"] == "missing":
        return "is missing."
    if one["type"] == "unexpected_keyword_argument":
        return _unknown(one["loc"])
    wanted = _OF_TWO_TYPES.get(str(place[-1]) if place else "", one["msg"])
    wanted = wanted.removeprefix("Input should be ")
    wanted = wanted.replace("an object", "a mapping").replace("a valid array", "a list")
    return f"got {json.dumps(one['input'])[:60]}, expected {wanted}."


def _unknown(place: Sequence[str | int]) -> str:
    kinds = (_KINDS[key] for key in reversed(place[:-1]) if key in _KINDS)
    known = [field.name for field in fields(next(kinds, OrchestratorSettings))]
    near = get_close_matches(str(place[-1]), known, n=1)
    return (
        f"is no setting; did you mean {near[0]}?"
        if near
        else f"is no setting: there are {', '.join(known)}."
    )


def _dotted(place: Sequence[str | int]) -> str:
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(
        "."
    )
    return path and f"{path}: "
