"""Literals of JSON: NaN and infinities, which its standard lacks, and most servers and clients of
the protocol write as `NaN`, `Infinity` and `-Infinity`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Raw

from .....comm.arrays import Array

NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""The numbers that these literals stand for. Strings of these names do as well, as in JSON of
protobuf: clients with a strict encoder can send them.
"""

_STRING_OR_LITERAL = re.compile(rb'"[^"]*"?|-?Infinity|NaN')
_COMPACT = ",", ":"


def with_quoted_literals(document: bytes | memoryview) -> bytes | None:
    """The document with strings in place of these literals; None where it has none."""
    text = bytes(document)
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")  # as long, and `"` ends strings
    parts: list[bytes] = []
    at = 0
    for found in _STRING_OR_LITERAL.finditer(masked):
        start, end = found.span()
        if masked[start] != ord('"'):
            parts += (text[at:start], b'"', text[start:end], b'"')
            at = end
    return b"".join((*parts, text[at:])) if parts else None


def encoded_numbers(numbers: Array) -> Raw:
    """All elements of an array of floats in their order, with these literals."""
    elements: list[Any] = numbers.reshape(-1).tolist()
    return Raw(json.dumps(elements, separators=_COMPACT).encode())
