"""Lite schema: the tables, enumerations and unions of .ms files, from the text of the schema.

The three .fbs files are MindSpore's own (Apache License 2.0). Fields have their slots by order.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

_FILES = ("ops_types.fbs", "ops.fbs", "model.fbs")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_BLOCK = re.compile(r"\b(table|enum|union)\s+(\w+)\s*(?::\s*\w+\s*)?\{([^}]*)\}")
_FIELD = re.compile(
    r"(\w+)\s*:\s*(\[?)\s*(\w+)\s*\]?\s*(?:=\s*([\w.+-]+))?\s*(?:\(deprecated\))?\s*;"
)
_MEMBER = re.compile(r"(\w+)\s*(?:=\s*(-?\d+))?")
SCALARS = {
    "bool": "?",
    "byte": "b",
    "ubyte": "B",
    "int": "i",
    "uint": "I",
    "long": "q",
    "int64": "q",
    "float": "f",
    "double": "d",
}
"""The struct code of each scalar type."""
Default: TypeAlias = "bool | int | float"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table: its slot in the vtable, its type, and its default if it is a scalar."""

    name: str
    slot: int
    type: str
    vector: bool
    default: Default = 0


@dataclass(frozen=True, slots=True)
class LiteSchema:
    """All that the schema defines. `enums` has the names of numbers, `unions` those of tables."""

    tables: Mapping[str, Mapping[str, Field]]
    enums: Mapping[str, Mapping[int, str]]
    unions: Mapping[str, tuple[str, ...]]

    def code(self, kind: str) -> str:
        """The struct code of a scalar or an enumeration, empty for other types."""
        if kind in self.enums:
            return "i" if kind in ("Format", "QuantType", "WeightQuantCompressType") else "b"
        return SCALARS.get(kind, "")


@functools.cache
def lite_schema() -> LiteSchema:
    """The schema in this folder."""
    folder = resources.files(__package__)
    return parse_schema("\n".join((folder / name).read_text() for name in _FILES))


def parse_schema(text: str) -> LiteSchema:
    """The definitions in a text of the FlatBuffers schema language."""
    blocks = _BLOCK.findall(_COMMENT.sub("", text))
    enums = {name: _enum(body) for word, name, body in blocks if word == "enum"}
    unions = {name: _union(body) for word, name, body in blocks if word == "union"}
    tables = {
        name: {field.name: field for field in _fields(body, enums, unions)}
        for word, name, body in blocks
        if word == "table"
    }
    return LiteSchema(tables, enums, unions)


def _enum(body: str) -> dict[int, str]:
    found: dict[int, str] = {}
    following = 0
    for name, number in _MEMBER.findall(body):
        following = int(number) if number else following
        found[following] = name
        following += 1
    return found


def _union(body: str) -> tuple[str, ...]:
    """The tables of a union, by their numbers; 0 stands for none."""
    return ("", *(name for name, _ in _MEMBER.findall(body)))


def _fields(
    body: str, enums: Mapping[str, Mapping[int, str]], unions: Mapping[str, tuple[str, ...]]
) -> Iterator[Field]:
    """The fields of a table. A union takes two slots, of which the first is its number."""
    slot = 0
    for name, bracket, kind, default in _FIELD.findall(body):
        slot += kind in unions
        yield Field(name, slot, kind, bool(bracket), _default(kind, default, enums))
        slot += 1


def _default(kind: str, text: str, enums: Mapping[str, Mapping[int, str]]) -> Default:
    if kind in enums:
        numbers = {name: number for number, name in enums[kind].items()}
        return numbers.get(text, 0) if not text.lstrip("-").isdigit() else int(text)
    if kind == "bool":
        return text == "true"
    number = float(text or 0)
    return number if kind in ("float", "double") else int(number)
