"""Received bodies: their memory grows with what clients send, not with what they announce."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psutil
import pytest

from rankmesh.orchestrator.server.http.received_body import ReceivedBody

pytestmark = pytest.mark.pure
ANNOUNCED = 1 << 30


def test_a_body_that_is_announced_takes_no_memory() -> None:
    async def grown() -> int:
        body = ReceivedBody(ANNOUNCED, ANNOUNCED, lambda: None)
        before = psutil.Process().memory_info().rss
        reading = asyncio.create_task(body.read_rest())
        await asyncio.sleep(0)
        assert body.target is not None and len(body.target) == ANNOUNCED
        after = psutil.Process().memory_info().rss
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        return int(after - before)

    assert asyncio.run(grown()) < ANNOUNCED // 16


def test_bytes_that_come_in_parts_are_read_as_they_were_sent() -> None:
    async def read() -> bytes:
        body = ReceivedBody(10, 10, lambda: None)
        body.take(memoryview(b"abc"))
        reading = asyncio.create_task(body.read_rest())
        for part in (b"defg", b"hij and a next request"):
            await asyncio.sleep(0)
            body.take(memoryview(part))
        return await reading

    assert asyncio.run(read()) == b"abcdefghij"


def test_places_are_filled_in_order_however_the_bytes_come() -> None:
    places, ends = [bytearray(4), bytearray(4)], []
    body = ReceivedBody(10, 10, lambda: None)
    body.take(memoryview(b"--"))
    body.fill(2, iter(map(memoryview, places)), lambda: ends.append(bytes(places[1])))
    body.take(memoryview(b"abcdef"))
    assert body.target is not None
    body.target[:] = b"gh"
    body.received(2)
    assert [bytes(place) for place in places] == [b"abcd", b"efgh"]
    assert ends == [b"efgh"] and body.complete and body.target is None
