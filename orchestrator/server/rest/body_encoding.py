"""Compressed request bodies: inflated within a bound."""

from __future__ import annotations

import zlib

from ..http.exchange import BadRequest
from ..inflation import inflate
from ..steps import StepThreads

PLAIN = ("", "identity")


async def inflated(data: bytes, encoding: str, limit: int, threads: StepThreads) -> bytes:
    """A body as it was before its content encoding.

    Raises BadRequest for another encoding and for damaged data, TooLong beyond `limit` bytes.
    """
    if encoding in PLAIN:
        return data
    if encoding not in ("gzip", "deflate"):
        raise BadRequest(415, f"content-encoding: got {encoding:.40}, expected gzip or deflate.")
    try:
        return await threads.run(inflate(data, limit))
    except zlib.error as error:
        raise BadRequest(400, f"the body is no {encoding}: {error}.") from None
