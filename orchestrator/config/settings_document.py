"""Document of settings: a YAML file as JSON, and the lines at which its keys stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular

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
_LONGEST_REASON = 200  # libraries quote what they cannot read
_PATHS = {"model": "path", "python": "path"}
"""Keys that stand for others."""
_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


class SettingsDocument:
    """The YAML file of an orchestrator.

    Its models may be a mapping by name, `model` and `python` stand for `path` there, and a step may
    be only a name: `data` has them as the settings do.
    """

    def __init__(self, source: str) -> None:
        """Read the file; UsageError names the line that is wrong."""
        self._source = source
        with _faults_named(source):
            self._root = _parse(source)
            found = Yaml12Loader("").construct_document(self._root)
            if isinstance(found, dict) and "models" in found:
                found["models"] = self._as_list(found["models"])
            self.data = json.dumps(found, default=str)
            """As JSON, which strict validation takes lists from."""

    def find(self, place: Sequence[str | int]) -> tuple[int, Node]:
        """The line of the key or item at `place`, and its value; where it is missing, those of what
        should contain it.
        """
        node = self._root
        line = _line(node.start_mark)
        for key in place:
            found = _entry(node, key)
            if found is None:
                break
            line, node = _line(found[0].start_mark), found[1]
        return line, node

    def has(self, place: Sequence[str | int], key: str) -> bool:
        """Whether the mapping at `place` has a key."""
        return _entry(self.find(place)[1], key) is not None

    def _as_list(self, models: object) -> object:
        if isinstance(models, dict):
            models = [self._named(at, name, one) for at, (name, one) in enumerate(models.items())]
        return [_as_settings(one) for one in models] if isinstance(models, list) else models

    def _named(self, at: int, name: str, model: object) -> object:
        if not isinstance(model, dict):
            return model
        if "name" in model:
            line = self.find(("models", at, "name"))[0]
            raise UsageError(f"{self._source}:{line}: the model is called {name} already.")
        return {"name": name, **model}


def _as_settings(model: object) -> object:
    """A model with the keys of its settings."""
    if not isinstance(model, dict):
        return model
    found = {_PATHS.get(key, key): value for key, value in model.items()}
    if "python" in model:  # a function needs them, and by them it is known
        found = {"inputs": None, "outputs": None, **found}
    if isinstance(found.get("steps"), list):
        found["steps"] = [{"model": one} if isinstance(one, str) else one for one in found["steps"]]
    return found


def _entry(node: Node, key: str | int) -> tuple[Node, Node] | None:
    """The key, or the item itself, and the value at one key of a node; None where it is missing."""
    if isinstance(node, SequenceNode) and isinstance(key, int):
        return node.value[key], node.value[key]
    if not isinstance(node, MappingNode):
        return None
    if isinstance(key, int):  # of models by name
        return node.value[key] if key < len(node.value) else None
    names = ("path", *_PATHS) if key == "path" else (key,)
    # From the end: what a merge brought in stands in front, and yields.
    return next((one for one in reversed(node.value) if one[0].value in names), None)


def _parse(source: str) -> Node:
    root = yaml.compose(_content(source), Loader=Yaml12Loader)
    if root is None:
        raise UsageError(f"{source}: is empty, expected the key models.")
    _check_nodes(source, root, {}, ())
    return root


@contextmanager
def _faults_named(source: str) -> Iterator[None]:
    """UsageError, with the file and where possible the line, for what PyYAML and json raise."""
    try:
        yield
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


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1
