"""Attack on a server: hostile requests by REST and by gRPC, whose answers are looked at."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import grpc.aio
from hostile_grpc import HostileGrpc
from hostile_rest import HostileRest

STATUSES = {200, 400, 403, 404, 405, 408, 409, 413, 415, 421, 431, 501, 504}
"""What a client may get for a request that is wrong; 504 for a `timeout` of a microsecond."""

CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "PERMISSION_DENIED"} | {
    *("ALREADY_EXISTS", "DEADLINE_EXCEEDED")
}
_LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Sent behind a request, so that the server closes the connection once it has answered both."""

_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
_LENGTH = re.compile(rb"(?i)^content-length: (\d+)\r$", re.M)
_TOLD = re.compile(rb'Traceback|File "|\.py\b|/usr/|/root/|/tmp/')
"""What no answer may tell: a stack, or a folder of the host."""

_QUIET = 0.5
"""Seconds after which an answer is not waited for: the server waits for the rest of the request."""


@dataclass
class Findings:
    """Outcomes by their status, and answers that there must not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def note(self, outcome: str, allowed: bool, sent: object, got: object) -> None:
        self.outcomes[outcome] += 1
        if not allowed:
            self.faults.append(f"{outcome}: {got!r:.300} to {sent!r:.600}")


async def attack_rest(port: int, random: Random, count: int, at_once: int = 48) -> Findings:
    """Send `count` requests, each on a connection of its own."""
    findings, hostile = Findings(), HostileRest(random)

    async def one() -> None:
        sent, ends = hostile.draw()
        got = await _exchange(port, sent, ends)
        _judge(findings, sent, got)

    await _repeated(one, count, at_once)
    return findings


async def attack_grpc(port: int, random: Random, count: int, at_once: int = 16) -> Findings:
    """Make `count` calls of one connection."""
    findings, hostile = Findings(), HostileGrpc(random)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        async def one() -> None:
            path, message = hostile.draw()
            code, text = "OK", ""
            try:
                await channel.unary_unary(path)(message, timeout=60)
            except grpc.aio.AioRpcError as error:
                code, text = error.code().name, error.details() or ""
            told = _TOLD.search(text.encode()) is not None
            findings.note(code, code in CODES and not told, (path, message), text)

        await _repeated(one, count, at_once)
    return findings


async def _repeated(one: Callable[[], Coroutine[Any, Any, None]], count: int, at_once: int) -> None:
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await one()

    await asyncio.gather(*(some() for _ in range(at_once)))


async def _exchange(port: int, sent: bytes, ends: bool) -> bytes:
    """What comes back until the server closes, or is quiet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = bytearray()
    with suppress(ConnectionError):
        writer.write(sent if ends else sent + _LAST)
        if ends:
            writer.write_eof()
        with suppress(TimeoutError):
            while part := await asyncio.wait_for(reader.read(1 << 20), _QUIET):
                found += part
    writer.transport.abort()
    return bytes(found)


def _judge(findings: Findings, sent: bytes, got: bytes) -> None:
    """Read all answers of a connection, one after the other."""
    if not got:
        findings.outcomes["none"] += 1
    at = 0
    while at < len(got):
        head = _HEAD.match(got, at)
        if head is None:
            findings.note("no HTTP", False, sent, got[at:])
            return
        length = _LENGTH.search(head[2])
        at = head.end()
        if length and not got.startswith(b"HTTP/1.1 ", at):  # as after HEAD
            at += int(length[1])
        status = int(head[1])
        told = _TOLD.search(got[head.end() : at]) is not None
        if status != 100:
            findings.note(str(status), status in STATUSES and not told, sent, got[head.start() :])
