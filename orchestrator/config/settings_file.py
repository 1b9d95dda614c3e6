"""The settings of an orchestrator in a YAML file: every fault is named by file, line and path of
the key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

import pydantic
import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular
from ...comm.text import yes_or_no
from .queue_policy import QueuePolicy
from .settings import BatchingSettings, ModelSettings, OrchestratorSettings, SettingFault

_TAG = "tag:yaml.org,2002:"
_SIGN_OR_DIGIT = [*"-+0123456789"]
_PLAIN = {
    "null": (r"~|null|Null|NULL|", [*"~nN", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", _SIGN_OR_DIGIT),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        [*_SIGN_OR_DIGIT, "."],
    ),
    "merge": (r"<<", ["<"]),
}


class Yaml12Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the types of YAML 1.2, and the merge key `<<`."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def whole(self, node: ScalarNode) -> int:
        """A whole number; ValueError where it is none."""
        text = self.construct_scalar(node)
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)

    def real(self, node: ScalarNode) -> float:
        """A number; ValueError where it is none."""
        return float(
            self.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
        )


for name, (words, starts) in _PLAIN.items():
    Yaml12Loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{words})\Z"), starts)
Yaml12Loader.add_constructor(f"{_TAG}int", Yaml12Loader.whole)
Yaml12Loader.add_constructor(f"{_TAG}float", Yaml12Loader.real)


_MAX_BYTES = 1 << 18
"""Five hundred models with every setting there is; reading as much takes PyYAML some seconds."""
_MAX_NODES = 100_000  # with all aliases written out
_MAX_FAULTS = 10
_LONGEST_REASON = 200  # libraries quote what they cannot read
_KINDS: dict[tuple[str, ...], type] = {
    (): OrchestratorSettings,
    ("models",): ModelSettings,
    ("models", "batching"): BatchingSettings,
    ("models", "queue"): QueuePolicy,
}
_OF_TWO_TYPES = {"cache": "a folder, or off"}
"""Expected values of settings with two types: pydantic tells a fault of these once per type."""

_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def load_settings(path: str | os.PathLike[str]) -> OrchestratorSettings:
    """Read settings; UsageError names file, line and key of what is wrong.

    Relative paths in the file start at its folder.
    """
    source = os.fspath(path)
    root, data = _parse(source)
    try:
        settings = pydantic.TypeAdapter(OrchestratorSettings).validate_json(data, strict=True)
    except pydantic.ValidationError as error:
        raise UsageError(_report(source, root, error)) from None
    folder = os.path.dirname(source)
    return replace(settings, models=tuple(_placed(model, folder) for model in settings.models))


def _placed(model: ModelSettings, folder: str) -> ModelSettings:
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
        labels=model.labels
        and {name: os.path.join(folder, file) for name, file in model.labels.items()},
    )


def _parse(source: str) -> tuple[Node, str]:
    """The file as YAML nodes, which know their lines, and as JSON, which strict validation takes
    lists from.
    """
    try:
        root = yaml.compose(_content(source), Loader=Yaml12Loader)
        if root is None:
            raise UsageError(f"{source}: is empty, expected the key models.")
        _check_nodes(source, root, {}, ())
        return root, json.dumps(Yaml12Loader("").construct_document(root), default=str)
    except yaml.MarkedYAMLError as error:
        raise UsageError(
            f"{source}:{_line(error.problem_mark)}: is no YAML: {error.problem}."
        ) from error
    except RecursionError:
        raise UsageError(f"{source}: is nested too deeply for settings.") from None
    except (
        yaml.YAMLError,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ) as error:  # PyYAML lets some through
        reason = str(error).splitlines() or [type(error).__name__]
        raise UsageError(f"{source}: cannot be read: {reason[0][:_LONGEST_REASON]}.") from error


def _content(source: str) -> bytes:
    try:
        return read_regular(source, _MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror}.") from error


def _check_nodes(source: str, node: Node, sizes: dict[int, int], inside: tuple[int, ...]) -> int:
    """Count these nodes with aliases written out; refuse too many, repeated keys, and keys that are
    not text.

    `sizes` has the nodes that were counted before, `inside` those around this one.
    """
    if id(node) in sizes:
        return sizes[id(node)]
    line = _line(node.start_mark)
    if id(node) in inside:
        raise UsageError(f"{source}:{line}: what begins here contains itself, by an alias.")
    if isinstance(node, MappingNode):
        _check_keys(source, node)
    parts = node.value if isinstance(node, CollectionNode) else []
    inner = [part[1] if isinstance(part, tuple) else part for part in parts]
    size = 1 + sum(_check_nodes(source, one, sizes, (*inside, id(node))) for one in inner)
    if size > _MAX_NODES:
        raise UsageError(
            f"{source}:{line}: has more than {_MAX_NODES} values, which no settings need."
        )
    sizes[id(node)] = size
    return size


def _check_keys(source: str, node: MappingNode) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = _line(key.start_mark)
        if not isinstance(key, ScalarNode) or key.tag not in _KEY_TAGS:
            raise UsageError(
                f"{source}:{line}: a key is not plain text: put it in quotes if it is meant as one."
            )
        if key.value in seen:
            raise UsageError(
                f"{source}:{line}: the key {key.value} stands in line {seen[key.value]} already."
            )
        seen[key.value] = line


def _report(source: str, root: Node, error: pydantic.ValidationError) -> str:
    found = set()
    for one in error.errors(include_url=False):
        fault = one.get("ctx", {}).get("error")
        place = (
            (*one["loc"], fault.key) if isinstance(fault, SettingFault) else _setting(one["loc"])
        )
        found.add((_find(root, place), f"{_dotted(place)}{_text(one, fault)}"))
    lines = [f"{source}:{line}: {text}" for line, text in sorted(found)]
    more = [f"and {len(lines) - _MAX_FAULTS} more faults."] if len(lines) > _MAX_FAULTS else []
    return "\n".join(lines[:_MAX_FAULTS] + more)


def _setting(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place without a type behind it."""
    return place[:-1] if len(place) > 1 and place[-2] in _OF_TWO_TYPES else place


def _text(one: Any, fault: Exception | None) -> str:
    if isinstance(fault, SettingFault):
        return fault.text
    if one["type"] == "missing":
        return "is missing."
    if one["type"] == "unexpected_keyword_argument":
        return _unknown(one["loc"])
    wanted = _OF_TWO_TYPES.get(str(_setting(one["loc"] or ("",))[-1]), one["msg"])
    wanted = wanted.removeprefix("Input should be ")
    wanted = wanted.replace("an object", "a mapping").replace("a valid array", "a list")
    return f"got {json.dumps(one['input'])[:60]}, expected {wanted}."


def _unknown(place: Sequence[str | int]) -> str:
    kind = _KINDS[tuple(key for key in place[:-1] if isinstance(key, str))]
    known = [field.name for field in fields(kind)]
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


def _find(node: Node, place: Sequence[str | int]) -> int:
    """The line of the key or item at `place`; where it is missing, that of what should contain
    it."""
    line = _line(node.start_mark)
    for key in place:
        found: Any = None
        if isinstance(
            node, MappingNode
        ):  # from the end: what a merge brought in stands in front, and yields
            found = next(
                ((name, value) for name, value in reversed(node.value) if name.value == key), None
            )
        elif isinstance(node, SequenceNode) and isinstance(key, int):
            found = (node.value[key], node.value[key])
        if found is None:
            break
        line, node = _line(found[0].start_mark), found[1]
    return line


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1
