"""Compressed request bodies: inflated within a bound."""

from __future__ import annotations

import asyncio
import zlib

from ..http.exchange import BadRequest

_EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, as the first bytes say


async def inflated(data: bytes, encoding: str, limit: int) -> bytes:
    """A body as it was before its content encoding.

    Raises BadRequest for another encoding, for damaged data, and beyond `limit` bytes.
    """
    if encoding in ("", "identity"):
        return data
    if encoding not in ("gzip", "deflate"):
        raise BadRequest(415, f"content-encoding: got {encoding:.40}, expected gzip or deflate.")
    try:
        return await asyncio.to_thread(_inflate, data, limit)
    except zlib.error as error:
        raise BadRequest(400, f"the body is no {encoding}: {error}.") from None


def _inflate(data: bytes, limit: int) -> bytes:
    """All members of a stream, one after the other."""
    found = bytearray()
    while True:
        stream = zlib.decompressobj(_EITHER)
        found += stream.decompress(data, limit + 1 - len(found))
        if len(found) > limit:
            raise BadRequest(
                413, f"the inflated body has more than {limit} bytes: send less at once."
            )
        if not stream.eof:
            raise zlib.error("it ends too early")
        data = stream.unused_data
        if not data:
            return bytes(found)
