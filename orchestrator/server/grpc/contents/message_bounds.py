"""Message bounds: fields are counted before protobuf makes an object of each."""

from __future__ import annotations

from collections.abc import Iterator

from .....comm.errors import InputError

MOST_FIELDS = 10_000
"""Fields of one message, at most."""

MOST_DECODED = 16 << 20
"""Bytes of a request beside its raw contents, at most."""

_MOST_BESIDE = 1 << 20
"""Bytes of these beside the typed contents, at most."""

_INPUT = _CONTENTS = 5
_SIZES = {1: 8, 5: 4}
"""Bytes of a value by its wire type, where they are fixed."""

_MORE = 0x80


def require_light(head: bytes) -> None:
    """InputError where a request without its raw contents is too much to be decoded in one call.
    Raises IndexError where it is malformed.
    """
    if len(head) <= _MOST_BESIDE:
        return
    if len(head) > MOST_DECODED:
        raise InputError(
            f"the request has {len(head)} bytes beside raw_input_contents, and may have "
            f"{MOST_DECODED}: send tensors in raw_input_contents."
        )
    beside = len(head)
    for number, start, end in _fields(head, 0, len(head)):
        for inner, first, last in _fields(head, start, end) if number == _INPUT else ():
            beside -= last - first if inner == _CONTENTS else 0
    if beside > _MOST_BESIDE:
        raise InputError(
            f"the request has {beside} bytes beside its tensors, and may have {_MOST_BESIDE}."
        )


def require_few(count: int) -> None:
    """InputError where a message has more fields than it may."""
    if count > MOST_FIELDS:
        raise InputError(f"a message of the request has more than {MOST_FIELDS} fields.")


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of the fields from `at` to `end`, and where their values begin and end."""
    count = 0
    while at < end:
        count += 1
        require_few(count)
        tag, at = varint(body, at)
        size = _SIZES.get(tag & 7, 0)
        if tag & 7 == 0:
            _, at = varint(body, at)
        elif tag & 7 == 2:
            size, at = varint(body, at)
        elif not size:
            raise IndexError
        yield tag >> 3, at, at + size
        at += size
    if at > end:
        raise IndexError


def varint(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends; IndexError where it does not."""
    value = body[at]
    if value < _MORE:
        return value, at + 1
    value, shift = value - _MORE, 7
    while True:
        at += 1
        value += (body[at] & 0x7F) << shift
        if body[at] < _MORE:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise IndexError
