"""Public surface: names, signatures, commands, settings and variables that users may hold on to.

    python tests/support/api.py            print the surface of today as JSON
    python tests/support/api.py --write    record it in tests/data/api.json

`differences` compares a recorded surface with that of today. Additions are no difference.
Annotations and module paths are no part of the surface.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import importlib.util
import inspect
import json
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import rankmesh

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "data" / "api.json"
_NAMES = "bool call contains enter eq exit getitem hash iter len lt next setitem aenter aexit"
SPECIAL = {f"__{name}__" for name in _NAMES.split()}
INTERNAL = {
    "Model": {"follow_group", "join", "require_free"},
    "Tensor": {"of_result", "of_slot", "receive"},
    "Buffers": {"taken"},
    "LoopCaller": {"begin", "client"},
}
"""Members that only Rankmesh itself calls: no promise, although their names had no underscore."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_ROOM = {
    "POSITIONAL_ONLY": "{} (positional)",
    "KEYWORD_ONLY": "{} (keyword)",
    "VAR_POSITIONAL": "*{}",
    "VAR_KEYWORD": "**{}",
}

Surface = dict[str, Any]


def surface() -> Surface:
    """Everything that users may hold on to, sorted by name."""
    names = _public_names()
    return {
        "names": {name: describe(getattr(rankmesh, name)) for name in names},
        "returned": dict(sorted(_returned(names))),
        "exit_codes": {
            name: getattr(rankmesh, name).exit_code
            for name in names
            if hasattr(getattr(rankmesh, name), "exit_code")
        },
        "commands": dict(_commands()),
        "settings": _settings(),
        "variables": _variables(),
        "mindspore_lite": _compatible(),
        "torch": _torch(),
    }


def _public_names() -> list[str]:
    """The names of `dir(rankmesh)` that are no modules and no helpers of its own."""
    own = {"annotations", "TYPE_CHECKING"}
    names = [name for name in dir(rankmesh) if not name.startswith("_") and name not in own]
    return [name for name in names if not isinstance(getattr(rankmesh, name), ModuleType)]


def describe(value: Any) -> Surface:
    """One public object: its kind, bases, signature and members."""
    if not inspect.isclass(value):
        return (
            {"kind": "function", "signature": _signature(value)}
            if callable(value)
            else {"kind": _constant(value)}
        )
    found: Surface = {"kind": "class", "bases": _bases(value)}
    if issubclass(value, enum.Enum):
        found["kind"] = "enumeration"
        found["values"] = {
            name: _constant(member.value) for name, member in value.__members__.items()
        }
    else:
        found["signature"] = _signature(value)
    found["members"] = dict(sorted(_members(value)))
    return found


def _bases(kind: type) -> list[str]:
    """The names of the bases that are exported or of the standard library."""
    known = {"builtins", "enum", "logging"}
    bases = [base for base in kind.__mro__[1:] if base is not object]
    return [
        one.__name__ for one in bases if one.__module__ in known or one.__name__ in dir(rankmesh)
    ]


def _own_classes(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "rankmesh"]


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """All public members that are Rankmesh's own, wherever in the bases they are defined."""
    for base in reversed(_own_classes(kind)):
        for name in _instance_attributes(base):
            yield name, "attribute"
        yield from ((name, "attribute") for name in _field_names(base))
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if (
            owner is None
            or owner not in _own_classes(kind)
            or name in getattr(kind, "__members__", ())
        ):
            continue
        if name in SPECIAL and vars(owner)[name] is not None:
            yield name, "special"
        elif not name.startswith("_") and name not in INTERNAL.get(owner.__name__, ()):
            yield name, _member(vars(owner)[name], name in _field_names(kind))


def _member(value: Any, is_field: bool) -> Any:
    if is_field or inspect.ismemberdescriptor(value) or inspect.isdatadescriptor(value):
        return "attribute"
    if isinstance(value, (classmethod, staticmethod)):
        return {"kind": type(value).__name__, "signature": _signature(value.__func__)}
    if inspect.isfunction(value):
        return {"kind": "method", "signature": _signature(value)}
    return _constant(value)


def _field_names(kind: type) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    return {name for name in getattr(kind, "__struct_fields__", ()) if not name.startswith("_")}


def _instance_attributes(kind: type) -> set[str]:
    """Public names that methods assign on self."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not node.attr.startswith("_")
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def _signature(function: Callable[..., Any]) -> list[str] | None:
    """The parameters in order, with their kinds and defaults; None where Python cannot tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [_parameter(one) for one in parameters]


def _parameter(parameter: inspect.Parameter) -> str:
    text = _ROOM.get(parameter.kind.name, "{}").format(parameter.name)
    return (
        text if parameter.default is parameter.empty else f"{text} = {_constant(parameter.default)}"
    )


def _constant(value: Any) -> str:
    """A value as text, without module paths and addresses."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    if (
        type(value).__module__.partition(".")[0] == "rankmesh"
        and type(value).__repr__ is object.__repr__
    ):
        return type(value).__name__
    return _ADDRESS.sub("", repr(value))


def _returned(names: list[str]) -> Iterator[tuple[str, Surface]]:
    """Classes that are not exported but returned, by the first member that returns one."""
    exported = {getattr(rankmesh, name) for name in names}
    queue = [
        (name, getattr(rankmesh, name))
        for name in names
        if inspect.isclass(getattr(rankmesh, name))
    ]
    for way, kind in queue:
        for name, annotation in _results(kind):
            for found in _classes_in(annotation):
                if found not in exported and found.__module__.startswith("rankmesh."):
                    exported.add(found)
                    queue.append((f"{way}.{name}", found))
                    yield f"{way}.{name}", {"members": describe(found)["members"]}


def _results(kind: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class with the types of what they give."""
    known = {"TYPE_CHECKING": False, **_type_checking_names(kind)}
    if _field_names(kind):
        yield from typing.get_type_hints(kind, localns=known).items()
    for name, value in sorted(vars(kind).items()):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        shown = not name.startswith("_") and name not in INTERNAL.get(kind.__name__, ())
        if shown and inspect.isfunction(function):
            yield name, typing.get_type_hints(function, localns=known).get("return")


def _type_checking_names(kind: type) -> dict[str, Any]:
    """What the module of a class imports for type checkers alone."""
    module = sys.modules[kind.__module__]
    found = {}
    for block in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test):
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    home = importlib.import_module(
                        "." * node.level + (node.module or ""), module.__package__
                    )
                    found.update(
                        {one.asname or one.name: getattr(home, one.name) for one in node.names}
                    )
    return found


def _classes_in(annotation: Any) -> Iterator[type]:
    if inspect.isclass(annotation) and not typing.get_args(annotation):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _classes_in(part)


def _commands() -> Iterator[tuple[str, Surface]]:
    """The parameters of each command of `rankmesh`, by the longest of their names."""
    import typer.main

    from rankmesh.launch.cli import app

    yield from _parameters("rankmesh", typer.main.get_command(app))


def _parameters(command_line: str, command: Any) -> Iterator[tuple[str, Surface]]:
    own = [
        one for one in command.params if one.name not in ("install_completion", "show_completion")
    ]
    yield command_line, {max(one.opts, key=len): _option(one) for one in own}
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _parameters(f"{command_line} {name}", inner)


def _option(parameter: Any) -> Surface:
    return {
        "names": sorted([*parameter.opts, *parameter.secondary_opts]),
        "kind": f"{parameter.param_type_name} of {_option_type(parameter)}",
        "default": _constant(None if callable(parameter.default) else parameter.default),
        "required": parameter.required,
        "many": parameter.nargs != 1 or bool(getattr(parameter, "multiple", False)),
    }


def _option_type(parameter: Any) -> str:
    """The type's name in Python; typer before 0.29 has click's type instead of an annotation."""
    if not hasattr(parameter, "type_descriptor"):
        named = {
            "text": "str",
            "integer": "int",
            "integer range": "int",
            "float range": "float",
            "boolean": "bool",
        }
        return named.get(parameter.type.name, str(parameter.type.name))
    annotation = parameter.type_descriptor.annotation
    return str((typing.get_args(annotation) or [annotation])[0].__name__)


def _settings() -> dict[str, Surface]:
    """The keys of an orchestrator's YAML file with their defaults, by the class that holds them."""
    kinds = (rankmesh.OrchestratorSettings, rankmesh.ModelSettings, rankmesh.BatchingSettings)
    return {
        kind.__name__: {one.name: _default(one) for one in dataclasses.fields(kind)}
        for kind in kinds
    }


def _default(field: dataclasses.Field[Any]) -> str:
    return "required" if field.default is dataclasses.MISSING else _constant(field.default)


def _variables() -> list[str]:
    """The environment variables that set Rankmesh up: the keys of the one table of them."""
    for path in sorted((ROOT / "launch").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                if "RANKMESH_DEVICE" in keys and "RANKMESH_KEY_FILE" in keys:
                    return sorted(keys)
    raise AssertionError("launch/ has no table of the variables RANKMESH_...")


def _compatible() -> dict[str, list[str]]:
    """The names that only one module of the package for `import mindspore_lite` has, by module."""
    (source,) = (ROOT / "launch").rglob("mindspore_lite/__init__.py")
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_SUBMODULES":
            table: dict[str, tuple[str, ...]] = ast.literal_eval(ast.unparse(node.value or node))
            return {name: sorted(own) for name, own in table.items()}
    raise AssertionError("the package mindspore_lite has no table of its modules")


def _torch() -> Surface:
    """The names of `rankmesh.torch`; none where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return {}
    names = [name for name in vars(rankmesh.torch) if not name.startswith("_")]
    return {
        name: describe(getattr(rankmesh.torch, name))
        for name in sorted(names)
        if getattr(rankmesh.torch, name).__module__.startswith("rankmesh.")
    }


def differences(recorded: Any, today: Any, way: str = "") -> Iterator[str]:
    """What was recorded and is gone or other today, one line each."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        for key, value in recorded.items():
            if key not in today:
                yield f"{way}.{key} is gone".lstrip(".")
            else:
                yield from differences(value, today[key], f"{way}.{key}".lstrip("."))
    elif way.endswith(".signature") and isinstance(recorded, list) and isinstance(today, list):
        yield from _signature_differences(recorded, today, way)
    elif isinstance(recorded, list) and isinstance(today, list):
        yield from (f"{way}: {one} is gone" for one in recorded if one not in today)
    elif recorded != today:
        yield f"{way}: was {recorded!r}, is {today!r}"


def _signature_differences(recorded: list[str], today: list[str], way: str) -> Iterator[str]:
    """Calls that were right must stay right: every parameter in its place, new ones optional."""
    kept = [one for one in today if one in recorded]
    new = [one for one in today if one not in recorded]
    places = [one for one in recorded if not one.startswith("*") and "(keyword)" not in one]
    if kept != recorded or today[: len(places)] != places:
        yield f"{way}: was ({', '.join(recorded)}), is ({', '.join(today)})"
    yield from (
        f"{way}: {one} is new and required"
        for one in new
        if " = " not in one and not one.startswith("*")
    )


if __name__ == "__main__":
    text = json.dumps(surface(), indent=1, sort_keys=True) + "\n"
    if "--write" in sys.argv[1:]:
        RECORD.write_text(text)
    else:
        print(text, end="")
