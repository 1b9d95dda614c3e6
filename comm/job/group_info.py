"""Group files: named groups of ranks, as MindSpore writes them by `group_ckpt_save_file`.

Such a file is a protobuf message ParallelGroupMap
(mindspore/python/mindspore/train/node_strategy.proto). Its field 1, repeated, is an item: field 1
has the group's name, field 2 its ranks. Field 2 has the ranks for a checkpoint, which inference
does not use. Ranks are a message with field 1, repeated uint32, packed or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import UsageError
from ..host.regular_file import read_regular

Groups = dict[str, tuple[int, ...]]
_NUMBER, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED = {_FIXED_64: 8, _FIXED_32: 4}
_LONGEST_NUMBER = 10
_LARGEST_FILE = 64 << 20
_LARGEST_RANK = 1 << 20


class _Malformed(ValueError):
    """The bytes are not such a message; the text says where."""


def read_groups(path: str) -> Groups:
    """The ranks of every group in the file, by name.

    UsageError names the file and its fault.
    """
    try:
        data = read_regular(path, _LARGEST_FILE)
    except OSError as error:
        raise UsageError(
            f"group_info_file {path}: cannot be read: {error.strerror}. Give the file that "
            "MindSpore wrote as group_ckpt_save_file."
        ) from error
    try:
        return _groups(data)
    except _Malformed as error:
        raise UsageError(
            f"group_info_file {path}: is no map of groups: {error}. Give the file that MindSpore "
            "wrote as group_ckpt_save_file."
        ) from error


def _groups(data: bytes) -> Groups:
    groups: Groups = {}
    for field, value in _fields(data):
        if field == 1:
            name, ranks = _item(_message(value))
            if groups.setdefault(name, ranks) != ranks:
                raise _Malformed(
                    f"the group '{name}' is there twice, as {list(groups[name])} and {list(ranks)}"
                )
    if not groups:
        raise _Malformed("it has no groups")
    return groups


def _item(data: bytes) -> tuple[str, tuple[int, ...]]:
    name, ranks = "", tuple[int, ...]()
    for field, value in _fields(data):
        if field == 1:
            name = _text(_message(value))
        elif field == 2:
            ranks = tuple(_ranks(_message(value)))
    if not name or not ranks or len(set(ranks)) < len(ranks):
        raise _Malformed(f"the group '{name}' is ranks {list(ranks)}, which no group can be")
    return name, ranks


def _ranks(data: bytes) -> Iterator[int]:
    for field, value in _fields(data):
        if field == 1 and isinstance(value, int):
            yield _rank(value)
        elif field == 1 and isinstance(value, bytes):  # packed
            at = 0
            while at < len(value):
                number, at = _number(value, at)
                yield _rank(number)


def _rank(value: int) -> int:
    if value > _LARGEST_RANK:
        raise _Malformed(f"{value!r} is no rank")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _Malformed(f"a group's name is no text: {error}") from error


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Malformed("a field that should hold a message holds a number")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers, with a number or bytes each.

    Fields of fixed size are skipped.
    """
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        kind = tag & 7
        if kind == _NUMBER:
            value, at = _number(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _number(data, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise _Malformed(f"byte {at - 1} starts no field")
        if size > len(data) - at:
            raise _Malformed(
                f"a field of {size} bytes at byte {at} ends after its message, of {len(data)} bytes"
            )
        if kind == _BYTES:
            yield tag >> 3, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The base-128 number at byte `at`, and its end."""
    value = 0
    for place, byte in enumerate(data[at : at + _LONGEST_NUMBER]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _Malformed(f"the number at byte {at} does not end")
