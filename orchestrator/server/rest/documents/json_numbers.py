"""Numbers of JSON: the lists of one tensor become an array part by part, never one whole list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from .....comm.arrays import Array
from ...steps import PART, Steps
from .json_literals import NUMBERS, with_quoted_literals

FLOATS = list[float]
DEEPEST = 32
"""How deep the lists of a tensor may be nested."""

_LONGEST = 4 * PART
"""Bytes of a part, at most."""

_SPACES = b" \t\r\n"
_CLOSE = ord("]")
_FLAT = bytes.maketrans(b"[]", b"  ")
_OUTLINE = bytes(one if one in b"[]," else ord("0") for one in range(256))
"""Every byte that is neither a bracket nor a comma is a part of a number."""

_WRONG = (b"[,", b"[]", b",]", b"][", b"]0", b"0[")
"""Outlines of an empty list, and of a bracket in the place of a number."""


class MalformedList(ValueError):
    """Text that is not a list of JSON."""

    def __init__(self) -> None:
        super().__init__("its `data` is malformed JSON, or has an empty list.")


class Span(NamedTuple):
    """A list in a document: the document, and where the list begins and ends in it."""

    text: bytes
    start: int
    end: int


def count_of(data: Span) -> Steps[int]:
    """How many numbers a list has, if it has any: one more than commas."""
    commas = 0
    for at in range(data.start, data.end, PART):
        commas += data.text.count(b",", at, min(at + PART, data.end))
        yield
    return commas + 1


def numbers(data: Span, count: int, kind: Any, dtype: np.dtype[Any]) -> Steps[Array]:
    """The `count` numbers of a list, in their order, however deep it is nested.

    `count` is that of `count_of`. Raises msgspec.ValidationError where one is not of the `kind` (a
    type of lists), OverflowError or FloatingPointError beyond the range of `dtype`, and ValueError.
    """
    found: Array = np.empty(count, dtype)
    outline = Outline()
    at = 0
    for part in _parts(data):
        outline.add(part)
        some = _decoded(b"[%b]" % part.translate(_FLAT), kind)
        if len(some) != part.count(b",") + 1:
            raise MalformedList
        found[at : at + len(some)] = _converted(some, dtype)
        at += len(some)
        yield
    outline.end()
    return found


def _parts(data: Span) -> Iterator[bytes]:
    """A list, cut at commas into parts of about 64 KiB."""
    at = data.start
    while at <= data.end:
        cut = data.text.find(b",", at + PART, data.end)
        cut = data.end if cut < 0 else cut
        if cut - at > _LONGEST:
            raise ValueError(f"one of its numbers has more than {_LONGEST} bytes, with spaces.")
        yield data.text[at:cut]
        at = cut + 1


def _decoded(part: bytes, kind: Any) -> list[Any]:
    """A flat list; floats may be literals beyond the standard of JSON, or strings of them."""
    try:
        return msgspec.json.decode(part, type=kind)  # type: ignore[no-any-return]
    except msgspec.DecodeError:
        if kind is not FLOATS:
            raise
        found = msgspec.json.decode(with_quoted_literals(part) or part, type=list[Any])
        some = [NUMBERS.get(one, one) if isinstance(one, str) else one for one in found]
        return msgspec.convert(some, kind)


def _converted(some: list[Any], dtype: np.dtype[Any]) -> Array:
    """Numbers as an array. Raises FloatingPointError, OverflowError beyond its range."""
    with np.errstate(over="raise"):
        found: Array = np.array(some, dtype)
    if dtype.kind == "V":  # numpy does not tell of bfloat16
        infinite = np.isinf(found.astype(np.float32))
        if infinite.any() and np.isfinite(np.array(some)[infinite]).any():
            raise FloatingPointError
    return found


class Outline:
    """The brackets of one list, part by part. Raises MalformedList for those that no list has."""

    def __init__(self) -> None:
        self._depth: int | None = None  # nothing was added

    def add(self, part: bytes) -> None:
        """The next part, between two commas."""
        outline = part.translate(_OUTLINE, _SPACES)
        brackets = outline.translate(None, b"0,")
        if self._depth == 0 or self._depth is None and not outline.startswith(b"["):
            raise MalformedList
        if not brackets:
            return
        if outline.startswith(b"]") or any(one in outline for one in _WRONG):
            raise MalformedList
        depths = np.cumsum(1 - (np.frombuffer(brackets, np.uint8) == _CLOSE) * np.int64(2))
        depths += self._depth or 0
        self._depth = int(depths[-1])
        if depths.max() > DEEPEST:
            raise ValueError(f"its lists are nested more than {DEEPEST} deep.")
        if depths[:-1].min(initial=1) < 1 or self._depth < (0 if outline.endswith(b"]") else 1):
            raise MalformedList

    def end(self) -> None:
        """The last part was added."""
        if self._depth:
            raise MalformedList
