"""Wire fields: the parts of a protobuf message, found in place without parsing it.

Encoding: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

Buffer = memoryview
VARINT, BYTES = 0, 2
_FIXED64, _FIXED32 = 1, 5


class WireError(ValueError):
    """The bytes are not a protobuf message; `offset` is where that shows."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"{problem} at byte {offset}")
        self.offset = offset


class WireField(NamedTuple):
    """One field: its number, where its tag starts, and where its payload lies."""

    number: int
    wire_type: int
    tag: int
    start: int
    end: int


def read_varint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    """The varint at `at` and the position behind it."""
    value = shift = 0
    for position in range(at, min(end, at + 10)):
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise WireError(at, "the file ends inside a number" if end - at < 10 else "a number has no end")


def fields(buffer: Buffer, start: int, end: int) -> Iterator[WireField]:
    """The fields of the message in buffer[start:end]; WireError where they do not add up."""
    at = start
    while at < end:
        tag, body = read_varint(buffer, at, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == BYTES:
            length, body = read_varint(buffer, body, end)
            stop = body + length
        elif wire_type == VARINT:
            stop = read_varint(buffer, body, end)[1]
        elif wire_type in (_FIXED64, _FIXED32):
            stop = body + (8 if wire_type == _FIXED64 else 4)
        else:
            raise WireError(at, f"field {number} has the unknown wire type {wire_type}")
        if not number:
            raise WireError(at, "a field has the number 0")
        if stop > end:
            raise WireError(
                at, f"field {number} needs {stop - body} bytes where {end - body} are left"
            )
        yield WireField(number, wire_type, at, body, stop)
        at = stop
