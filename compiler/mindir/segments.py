"""Container of encrypted files: a chain of headers and cipher text (docs/mindir.md).

This module knows the layout alone. Every length is checked against the file before it is used.
"""

from __future__ import annotations

from typing import NamedTuple

AES_GCM, AES_CBC, SM4_CBC = "AES-GCM", "AES-CBC", "SM4-CBC"
MODES = (AES_GCM, AES_CBC, SM4_CBC)
MAGIC_OF = {
    AES_GCM: b"\xd8\x5e\x3a\x7f",
    AES_CBC: b"\xd9\x5e\x3a\x7f",
    SM4_CBC: b"\xda\x5e\x3a\x7f",
}
_MAGICS = {magic: mode for mode, magic in MAGIC_OF.items()}
_INT, _TAG, BLOCK = 4, 16, 16


class SegmentError(ValueError):
    """The segments of an encrypted file do not add up; the text has the byte."""


class EncryptedSegment(NamedTuple):
    """One segment: its offset, tag (empty: none), vector, and the extent of its cipher text."""

    offset: int
    tag: bytes
    vector: bytes
    start: int
    length: int


def mode_of(data: memoryview) -> str:
    """The mode that the first bytes of a file name, empty where it is not encrypted.

    Releases around 1.3 wrote the AES-GCM mark on AES-CBC files too.
    """
    return _MAGICS.get(bytes(data[:_INT]), "")


def segments_of(data: memoryview) -> tuple[EncryptedSegment, ...]:
    """The segments of an encrypted file, at least one; SegmentError where they do not add up.

    Those of AES-GCM have tags, unless an old release wrote them: then only the layout without tags
    adds up.
    """
    if mode_of(data) != AES_GCM:
        return _chain(data, 0)
    try:
        return _chain(data, _TAG)
    except SegmentError as tagged:
        try:
            return _chain(data, 0)
        except SegmentError:
            raise tagged from None


def _chain(data: memoryview, tag: int) -> tuple[EncryptedSegment, ...]:
    found, at, magic = [], 0, bytes(data[:_INT])
    while at < len(data):
        if bytes(data[at : at + _INT]) != magic:
            raise SegmentError(
                f"no encrypted segment starts at byte {at}, where the one before ends"
            )
        segment = _segment(data, at, tag)
        found.append(segment)
        at = segment.start + segment.length
    return tuple(found)


def _segment(data: memoryview, at: int, tag: int) -> EncryptedSegment:
    body = at + _INT + tag
    whole, vector = _number(data, body, at), _number(data, body + _INT, at)
    if vector != BLOCK:
        raise SegmentError(
            f"the encrypted segment at byte {at} has a vector of {vector} bytes, expected {BLOCK}"
        )
    start = body + 3 * _INT + vector
    length = _number(data, start - _INT, at)
    if whole != 2 * _INT + vector + length:
        raise SegmentError(
            f"the encrypted segment at byte {at} says that it has {whole} bytes, and its parts say "
            f"{2 * _INT + vector + length}"
        )
    if start + length > len(data):
        raise SegmentError(
            f"the encrypted segment at byte {at} needs {length} bytes of cipher text, and "
            f"{max(0, len(data) - start)} are left: the file is truncated"
        )
    return EncryptedSegment(
        at,
        bytes(data[at + _INT : body]),
        bytes(data[body + 2 * _INT : start - _INT]),
        start,
        length,
    )


def _number(data: memoryview, at: int, segment: int) -> int:
    if at + _INT > len(data):
        raise SegmentError(
            f"the file ends at byte {len(data)}, inside the header of the encrypted segment at "
            f"byte {segment}"
        )
    return int.from_bytes(data[at : at + _INT], "little")
