"""Clients of a server beside crowds that only hold connections: how long they wait, and what fails.

    python bench/serving_crowds.py [--seconds 20] [--idle 5000] [--slow 1200]

Crowds, one after the other: connections that send nothing, heads and bodies of a byte a second, and
large responses that nothing reads. A connection that the server closes is opened again. The server
has its limits of connections as they are by default. The clients, each with one request after the
other, are a process of their own: four of gRPC, five of REST, of which one keeps its connection.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

import grpc
import uvloop
from report import print_table
from served_process import NUMBERS, ServedProcess, served
from serving_clients import GrpcClient, RestClient, WrongAnswer

_CLIENTS = 4
_PAUSE = 0.01
_PATIENCE = 60.0
_HEAD = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\n"
_ROWS = 500
_AGAIN = 0.5
"""Seconds until a connection is opened again."""

Member = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the server closes."""
    await reader.read(1)


async def slow_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A head without an end."""
    await _drip(writer, _HEAD)


async def slow_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body that is announced, and comes slowly."""
    await _drip(writer, _HEAD + b"Content-Length: 100000\r\n\r\n")


async def slow_reader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A request of 2 MB, whose answer is not read."""
    data = bytes(4 * NUMBERS * _ROWS)
    document = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": [_ROWS, NUMBERS],
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": len(data)},
                }
            ]
        }
    ).encode()
    sizes = (len(document), len(document) + len(data))
    head = b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % sizes
    writer.write(_HEAD + head + document + data)
    await writer.drain()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    while not writer.is_closing():
        await asyncio.sleep(1)


async def _drip(writer: asyncio.StreamWriter, start: bytes) -> None:
    writer.write(start)
    while not writer.is_closing():
        writer.write(b"a")
        await asyncio.sleep(1)


@dataclass(frozen=True)
class Crowd:
    """So many connections that do the same."""

    name: str
    size: int
    member: Member
    by_grpc: bool = False

    async def stay(self, server: ServedProcess) -> None:
        """Hold the connections until this is cancelled."""
        port = server.grpc_port if self.by_grpc else server.port
        await asyncio.gather(*(self._one(port, number) for number in range(self.size)))

    async def _one(self, port: int, number: int) -> None:
        await asyncio.sleep(number / 2000)  # not all in one moment, which no backlog takes
        while True:
            with suppress(
                OSError, EOFError, RuntimeError
            ):  # the last is uvloop's, once it is closed
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await self.member(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_AGAIN)


class Askers:
    """The process of the clients."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, server: ServedProcess) -> Askers:
        """Start it."""
        command = [sys.executable, __file__, "--ask", str(server.port), str(server.grpc_port)]
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))

    async def told(self) -> dict[str, Any]:
        """How the requests since the last call have fared."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        found: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return found

    async def end(self) -> None:
        """End it."""
        self._process.terminate()
        await self._process.wait()


async def ask(port: int, grpc_port: int) -> None:
    """Clients one request after the other; a line of their seconds for each line of the input."""
    seconds: list[float] = []
    faults: list[str] = []

    async def client(echo: Callable[[], Awaitable[None]]) -> None:
        while True:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await echo()
            except (OSError, EOFError, WrongAnswer, grpc.aio.AioRpcError) as error:
                faults.append(repr(error))
            seconds.append(time.monotonic() - begun)
            await asyncio.sleep(_PAUSE)

    async def newcomer() -> None:
        async with RestClient(port) as one:
            await one.echo()

    kept, calls = RestClient(port), GrpcClient(grpc_port)
    clients = [kept.echo, *[newcomer] * _CLIENTS, *[calls.echo] * _CLIENTS]
    running = [asyncio.ensure_future(client(one)) for one in clients]
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        parts = quantiles(seconds, n=100) if len(seconds) > 1 else [0.0] * 99
        told = {"count": len(seconds), "p50": parts[49], "p99": parts[98], "faults": faults[:3]}
        print(
            json.dumps({**told, "max": max(seconds, default=0), "failed": len(faults)}), flush=True
        )
        seconds.clear()
        faults.clear()
    for one in running:
        one.cancel()


async def compare(given: argparse.Namespace) -> None:
    """Measure the clients alone, and beside each crowd."""
    crowds = [
        Crowd("none", 0, silent),
        Crowd("silent, HTTP", given.idle, silent),
        Crowd("silent, gRPC", given.idle, silent, by_grpc=True),
        Crowd("slow heads", given.slow, slow_head),
        Crowd("slow bodies", given.slow, slow_body),
        Crowd("slow readers", given.readers, slow_reader),
        Crowd("none again", 0, silent),
    ]
    rows = []
    with served("--threads", "1") as server:
        await server.ready()
        askers = await Askers.start(server)
        for crowd in crowds:
            rows.append(await beside(crowd, server, askers, given.seconds))
            print(rows[-1], flush=True)
        await askers.end()
    header = ["crowd", "connections", "requests", "p50 ms", "p99 ms", "longest ms", "failed"]
    print_table([*header, "RSS of the server, MiB", "its files"], rows)


async def beside(crowd: Crowd, server: ServedProcess, askers: Askers, seconds: float) -> list[str]:
    """A row of the table."""
    staying = asyncio.ensure_future(crowd.stay(server))
    await asyncio.sleep(crowd.size / 2000)
    await askers.told()
    await asyncio.sleep(seconds)
    told, holds = await askers.told(), server.holds()
    staying.cancel()
    with suppress(asyncio.CancelledError):
        await staying
    if told["faults"]:
        print(told["faults"], flush=True)
    times = [f"{1e3 * told[name]:.0f}" for name in ("p50", "p99", "max")]
    counts = [str(crowd.size), str(told["count"]), *times, str(told["failed"])]
    return [crowd.name, *counts, str(holds.rss >> 10), str(holds.fds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--slow", type=int, default=1200)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--ask", type=int, nargs=2, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        uvloop.run(ask(*given.ask))
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(compare(given))


if __name__ == "__main__":
    main()
