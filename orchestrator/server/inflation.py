"""Inflation: compressed bodies as they were, in steps, within a bound of bytes and of work."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO

from .faults import TooLong
from .steps import Steps

_EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, as the first bytes say
_TAKEN = 1 << 12
"""Bytes that are inflated at a time: the library copies the rest of them behind each member."""

_GIVEN = 1 << 20
"""Bytes that come out of them at a time."""


_LEAST = 1 << 24


def decoded_bytes(limit: int) -> int:
    """How many bytes a message may have that is inflated or in JSON, where one that is used as it
    comes may have `limit`: the server has it in memory of its own.
    """
    return min(limit, max(limit >> 3, _LEAST))


def inflate(data: bytes, limit: int) -> Steps[bytes]:
    """All members of a stream of gzip or zlib, one after the other.

    Raises zlib.error for damaged data, TooLong beyond `limit` bytes.
    """
    found = BytesIO()  # it gives its bytes away without a copy
    stream = zlib.decompressobj(_EITHER)
    for piece in _pieces(data):
        while len(piece):
            if stream.eof:
                stream = zlib.decompressobj(_EITHER)
            found.write(stream.decompress(piece, _GIVEN))
            if found.tell() > limit:
                raise TooLong(f"inflated, it has more than {limit} bytes: send less at once.")
            piece = stream.unused_data if stream.eof else stream.unconsumed_tail
            yield
    found.write(stream.flush(_TAKEN))
    if not stream.eof:
        raise zlib.error("it ends too early")
    return found.getvalue()


def _pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _TAKEN):
        yield data[at : at + _TAKEN]
