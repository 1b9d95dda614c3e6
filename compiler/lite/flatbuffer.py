"""FlatBuffers: tables of a file by their schema, each access checked against the file's bounds.

Python's flatbuffers package has no verifier. Here every offset, vtable, vector and text is checked
before it is read, and a budget bounds what one file can make the reader do: many vectors may share
one table. Tables of the schema do not nest without end, and offsets only lead forward.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .schema.lite_schema import Field, LiteSchema

_VTABLE_HEAD = 4
_LEAST = 32  # bytes that a table counts for, however short: an object of Python takes more
_GROWTH = 4
_DTYPES = {"?": np.uint8, "b": np.int8, "B": np.uint8, "i": np.int32, "I": np.uint32}
_WIDE = {"q": np.int64, "f": np.float32, "d": np.float64}


class FlatbufferError(ValueError):
    """Bytes that the schema does not explain; the text names the byte."""


class Flatbuffer:
    """The bytes of a file, and the budget of the bytes that may be read of it."""

    def __init__(self, data: memoryview, schema: LiteSchema) -> None:
        self.data = data
        self.schema = schema
        self._left = _GROWTH * len(data) + 4096

    def root(self, table: str) -> Table:
        """The root table."""
        return Table(self, self.forward(0), table)

    def spend(self, size: int) -> None:
        """Count bytes; FlatbufferError where a file makes more of them than it can hold."""
        self._left -= size
        if self._left < 0:
            raise FlatbufferError(
                "its tables are shared so often that they expand to more than four times its size"
            )

    def number(self, at: int, code: str) -> Any:
        """The scalar at a byte."""
        self.check(at, struct.calcsize(code))
        return struct.unpack_from("<" + code, self.data, at)[0]

    def forward(self, at: int) -> int:
        """The byte that the offset at a byte leads to."""
        offset: int = self.number(at, "I")
        if not offset:
            raise FlatbufferError(f"the offset at byte {at} leads nowhere")
        return at + offset

    def check(self, at: int, length: int) -> None:
        """FlatbufferError unless `length` bytes lie at a byte of the file."""
        if at < 0 or at + length > len(self.data):
            raise FlatbufferError(
                f"byte {at} with {length} bytes lies outside of the file of {len(self.data)}"
            )

    def vector(self, at: int, size: int) -> tuple[int, int]:
        """(first byte, elements) of the vector that the offset at a byte leads to."""
        start = self.forward(at)
        count: int = self.number(start, "I")
        self.check(start + 4, count * size)
        return start + 4, count


class Table:
    """One table of a file; its fields are read on demand."""

    def __init__(self, buffer: Flatbuffer, at: int, name: str) -> None:
        self.name = name
        self._buffer = buffer
        self._at = at
        buffer.spend(_LEAST)
        self._vtable = at - buffer.number(at, "i")
        self._fields_end = buffer.number(self._vtable, "H")
        self._size = buffer.number(self._vtable + 2, "H")
        if self._fields_end < _VTABLE_HEAD or self._fields_end % 2:
            raise FlatbufferError(f"the vtable at byte {self._vtable} is {self._fields_end} long")
        buffer.check(self._vtable, self._fields_end)
        buffer.check(at, self._size)

    @property
    def fields(self) -> Sequence[str]:
        """The names of all fields of the table's type."""
        return tuple(self._buffer.schema.tables[self.name])

    def __getitem__(self, name: str) -> Any:
        """A field: a number, the word of an enumeration, a text, a table or None, a list of tables
        or texts, or an array of numbers that is a view of the file.
        """
        field = self._buffer.schema.tables[self.name][name]
        if field.type in self._buffer.schema.unions:
            return self._union(field)
        code = self._buffer.schema.code(field.type)
        if field.vector:
            return self._vector(field, code)
        if code:
            return self._scalar(field, code)
        at = self._place(field.slot, 4)
        if at is None:
            return "" if field.type == "string" else None
        if field.type == "string":
            return self._text(at)
        return Table(self._buffer, self._buffer.forward(at), field.type)

    def extent(self, name: str) -> tuple[int, int] | None:
        """(first byte, length) of a vector of bytes; None where there is none."""
        at = self._place(self._buffer.schema.tables[self.name][name].slot, 4)
        return None if at is None else self._buffer.vector(at, 1)

    def _place(self, slot: int, size: int) -> int | None:
        """The byte of a field; None where the table leaves it out."""
        entry = _VTABLE_HEAD + 2 * slot
        if entry + 2 > self._fields_end:
            return None
        offset: int = self._buffer.number(self._vtable + entry, "H")
        if not offset:
            return None
        if offset < _VTABLE_HEAD or offset + size > self._size:
            raise FlatbufferError(
                f"field {slot} of the {self.name} at byte {self._at} lies outside of it"
            )
        return self._at + offset

    def _scalar(self, field: Field, code: str) -> Any:
        at = self._place(field.slot, struct.calcsize(code))
        value = field.default if at is None else self._buffer.number(at, code)
        names = self._buffer.schema.enums.get(field.type)
        if names is None:
            return value
        if value not in names:
            raise FlatbufferError(f"{self.name}.{field.name} is {value}, no {field.type}")
        return names[int(value)]

    def _union(self, field: Field) -> Table | None:
        kind_at, at = self._place(field.slot - 1, 1), self._place(field.slot, 4)
        names = self._buffer.schema.unions[field.type]
        number = 0 if kind_at is None else self._buffer.number(kind_at, "B")
        if at is None or not number:
            return None
        if number >= len(names):
            raise FlatbufferError(f"{self.name}.{field.name} is of the unknown kind {number}")
        return Table(self._buffer, self._buffer.forward(at), names[number])

    def _vector(self, field: Field, code: str) -> Any:
        at = self._place(field.slot, 4)
        size = struct.calcsize(code) if code else 4
        start, count = (0, 0) if at is None else self._buffer.vector(at, size)
        if code:
            return self._numbers(start, count, code)
        self._buffer.spend(size * count)
        places = [start + 4 * index for index in range(count)]
        if field.type == "string":
            return [self._text(place) for place in places]
        return [Table(self._buffer, self._buffer.forward(place), field.type) for place in places]

    def _numbers(self, start: int, count: int, code: str) -> NDArray[Any]:
        dtype = np.dtype(_DTYPES.get(code) or _WIDE[code]).newbyteorder("<")
        if dtype.itemsize > 1:
            self._buffer.spend(count * dtype.itemsize)
        return np.frombuffer(self._buffer.data, dtype, count, start)

    def _text(self, at: int) -> str:
        start, count = self._buffer.vector(at, 1)
        self._buffer.spend(count)
        try:
            return bytes(self._buffer.data[start : start + count]).decode()
        except UnicodeDecodeError as error:
            raise FlatbufferError(f"the text at byte {start} is no UTF-8: {error}") from None
