"""FlatBuffers writer: a message of tables, laid out by their schema, front to back.

Offsets lead forward only, so tables come before what they hold, and large vectors of bytes come
last: a file is written in one pass, and the elements of its weights are never all in memory.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .schema.lite_schema import Field, LiteSchema

_LARGEST = (1 << 31) - 1
_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Blob:
    """A vector of bytes that `make` gives when it is written; `length` is known before."""

    length: int
    make: Callable[[], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Union:
    """A value of a union: a table by its name, and its fields."""

    table: str
    fields: Mapping[str, Any]


class FlatbufferWriter:
    """One message. Fields of a table are a mapping by name; those that are missing keep their
    defaults. Enumerations are words, vectors sequences.
    """

    def __init__(self, schema: LiteSchema, identifier: bytes) -> None:
        self._schema = schema
        self._numbers = {
            kind: {name: number for number, name in names.items()}
            for kind, names in schema.enums.items()
        }
        self._out = bytearray(struct.pack("<I", 0) + identifier)
        self._waiting: deque[tuple[int, Field, Any]] = deque()
        self._blobs: list[tuple[int, Blob]] = []

    def chunks(self, table: str, fields: Mapping[str, Any]) -> Iterator[bytes]:
        """The parts of the message, in order; ValueError where it is longer than 2 GiB."""
        self._point(0, self._table(table, fields))
        while self._waiting:
            at, field, value = self._waiting.popleft()
            self._child(at, field, value)
        starts = self._placed_blobs()
        yield bytes(self._out)
        written = len(self._out)
        for start, (_, blob) in zip(starts, self._blobs, strict=True):
            yield bytes(start - written) + struct.pack("<I", blob.length)
            data = np.ascontiguousarray(blob.make()).reshape(-1).view(np.uint8)
            if data.size != blob.length:
                raise ValueError(f"a vector has {data.size} bytes, expected {blob.length}")
            yield from _parts(data)
            written = start + 4 + blob.length

    def _placed_blobs(self) -> list[int]:
        """The places of the blobs behind all tables, which point to them."""
        starts, end = [], len(self._out)
        for at, blob in self._blobs:
            start = end + (-(end + 4)) % _ALIGNMENT
            self._point(at, start)
            starts.append(start)
            end = start + 4 + blob.length
        if end > _LARGEST:
            raise ValueError(f"the file would have {end} bytes, expected at most {_LARGEST}")
        return starts

    def _table(self, name: str, values: Mapping[str, Any]) -> int:
        """Write a table and its vtable; what it holds waits."""
        known = self._schema.tables[name]
        if unknown := set(values) - set(known):
            raise ValueError(f"the table {name} has no field {min(unknown)}")
        present = [(known[key], value) for key, value in values.items() if value is not None]
        parts = [part for field, value in present for part in self._parts(field, value)]
        parts.sort(key=lambda part: -struct.calcsize(part[1]))
        slots = max((slot for slot, _, _, _ in parts), default=-1) + 1
        head = 4 + 2 * slots
        vtable = len(self._out)
        start = vtable + head + (4 - (vtable + head)) % 8  # so that wide fields lie at multiples
        offsets, at = [0] * slots, 4
        for slot, code, _, _ in parts:
            offsets[slot] = at
            at += struct.calcsize(code)
        self._out += struct.pack(f"<HH{slots}H", head, at, *offsets)
        self._out += bytes(start - len(self._out)) + struct.pack("<i", start - vtable)
        for slot, code, number, child in parts:
            if child is not None:
                self._waiting.append((start + offsets[slot], *child))
            self._out += struct.pack("<" + code, number)
        self._align(4)
        return start

    def _parts(self, field: Field, value: Any) -> Iterator[tuple[int, str, Any, Any]]:
        """(slot, struct code, number, child) of a field; a union has two."""
        if isinstance(value, Union):
            number = self._schema.unions[field.type].index(value.table)
            yield field.slot - 1, "B", number, None
            yield field.slot, "I", 0, (field, value)
            return
        code = "" if field.vector else self._schema.code(field.type)
        if code:
            yield field.slot, code, self._number(field.type, value), None
        else:
            yield field.slot, "I", 0, (field, value)

    def _number(self, kind: str, value: Any) -> Any:
        return self._numbers[kind][value] if kind in self._numbers else value

    def _child(self, at: int, field: Field, value: Any) -> None:
        """Write what an offset leads to."""
        if isinstance(value, Blob):
            self._blobs.append((at, value))
        elif isinstance(value, Union):
            self._point(at, self._table(value.table, value.fields))
        elif field.vector:
            self._point(at, self._vector(field, value))
        elif field.type == "string":
            self._point(at, self._text(value))
        else:
            self._point(at, self._table(field.type, value))

    def _vector(self, field: Field, values: Sequence[Any]) -> int:
        code = self._schema.code(field.type)
        if not code:
            start = self._start(4, len(values))
            places = [len(self._out) + 4 * index for index in range(len(values))]
            self._out += bytes(4 * len(values))
            inner = Field(field.name, 0, field.type, False)
            self._waiting.extend((p, inner, v) for p, v in zip(places, values, strict=True))
            return start
        start = self._start(struct.calcsize(code), len(values))
        numbers = [self._number(field.type, value) for value in values]
        self._out += struct.pack(f"<{len(numbers)}{code}", *numbers)
        self._align(4)
        return start

    def _text(self, text: str) -> int:
        data = text.encode()
        start = self._start(1, len(data))
        self._out += data + b"\0"
        self._align(4)
        return start

    def _start(self, size: int, count: int) -> int:
        """Write the length of a vector, whose elements then lie at multiples of their size."""
        self._out += bytes(-(len(self._out) + 4) % max(size, 4))
        start = len(self._out)
        self._out += struct.pack("<I", count)
        return start

    def _align(self, size: int) -> None:
        self._out += bytes(-len(self._out) % size)

    def _point(self, at: int, target: int) -> None:
        struct.pack_into("<I", self._out, at, target - at)


def _parts(data: NDArray[np.uint8], size: int = 1 << 24) -> Iterator[bytes]:
    """Bytes in parts of a moderate size."""
    for start in range(0, data.size, size):
        yield data[start : start + size].tobytes()
