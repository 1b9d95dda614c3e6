"""Document parts: the lists of numbers of a JSON document, apart from the rest that is decoded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from .....comm.errors import InputError
from ...http.exchange import BadRequest
from ...steps import PART, Steps
from .json_numbers import Span

_DATA = re.compile(rb'"data"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_NUMBERS = re.compile(rb'[^"{}]*')
_NAMED = re.compile(rb'"(?:NaN|-?Infinity)"(?=[ \t\r\n]*[],])')
_BEHIND = b" \t\r\n,"
_QUOTE, _END = b'"}'


class DocumentParts(NamedTuple):
    """A document whose lists of numbers are `spans`; the `rest` has the number of its span in the
    place of each.
    """

    rest: bytes
    spans: Sequence[Span] | None
    """None: the lists are in the rest."""

    def span(self, data: msgspec.Raw) -> Span:
        """Where `data` of the rest, not empty, is."""
        text = bytes(data)
        if self.spans is None or not text[1:-1].isdigit() or len(text) > 9:
            return Span(text, 0, len(text))
        number = int(text[1:-1])
        if number >= len(self.spans):  # the key was written in another way than ours
            raise InputError("the document of the request: write the key `data` without escapes.")
        return self.spans[number]


def whole(text: bytes) -> DocumentParts:
    """A document that is small enough to be decoded in one call."""
    return DocumentParts(text, None)


def taken_apart(text: bytes, most: int) -> Steps[DocumentParts]:
    """The parts of a document of any size; BadRequest where it has more than `most` bytes
    beside its numbers.

    The rest is a document of JSON where `text` is one, and its lists are malformed otherwise.
    """
    rest = bytearray()
    spans: list[Span] = []
    at = 0
    while at < len(text):
        found = _DATA.search(text, at, at + most + 1)
        start = found.end() if found else min(len(text), at + most + 1)
        rest += text[at:start]
        at = start
        if found:
            at = yield from _end_of_numbers(text, start)
            end = _list_end(text, start, at)
            if end:
                rest += b"[%d]" % len(spans)
                spans.append(Span(text, start, end))
            rest += text[end or start : at]
        if len(rest) > most:
            raise BadRequest(
                413,
                f"the document has more than {most} bytes beside its lists of numbers: send "
                "texts in binary.",
            )
        yield
    return DocumentParts(bytes(rest), spans)


def _end_of_numbers(text: bytes, at: int) -> Steps[int]:
    """Where the first byte behind `at` is that no list of numbers has."""
    while True:
        found = _NUMBERS.match(text, at, at + PART)
        assert found is not None  # it may be empty
        end = found.end()
        named = _NAMED.match(text, end) if end < at + PART else None
        if end < at + PART and named is None:
            return end
        at = end if named is None else named.end()
        yield


def _list_end(text: bytes, start: int, stop: int) -> int:
    """Where the list ends that begins at `start` and has nothing but numbers up to `stop`; 0 where
    it has something else.
    """
    if stop == len(text) or text[stop] not in (_QUOTE, _END):
        return 0
    last = text[max(start, stop - PART) : stop]
    listed = last.rstrip(_BEHIND)
    return stop - len(last) + len(listed) if listed.endswith(b"]") else 0
