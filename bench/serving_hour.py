"""A server under load for a long time: its memory, its files, its threads, and its counters.

    python bench/serving_hour.py [--seconds 3600] [--share 0.7] [--samples FILE]

An open loop: requests come at random moments, at `--share` of the rate that this machine reached
just before. Nine of ten are an echo of 4 KB, by REST or by gRPC, and every answer is checked. The
others are errors, whose code is checked, and requests that their clients cancel. Failures are
counted by what the client saw.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import grpc
import numpy as np
import uvloop
from report import print_table
from served_process import Holding, ServedProcess, held_by, served, write_line
from serving_clients import INFER, GrpcClient, RestClient, WrongAnswer, echo_message, payload

_MEASURED, _CLIENTS = 15.0, 8
_EVERY = 15.0
_PATIENCE = 60.0
SHARES = (0.45, 0.45, 0.03, 0.03, 0.02, 0.02)
_DIGITS = re.compile(r"\d{2,}")
_TEXT = 100
_RANDOM = np.random.default_rng()
_BAD = b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}'


@dataclass
class Tally:
    """Outcomes of requests by their kind, and the seconds of those that were answered."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed requests by what was asked and what the client saw."""

    def take_seconds(self) -> list[float]:
        """The seconds since the last call, in order."""
        taken, self.seconds = sorted(self.seconds), []
        return taken


class Load:
    """Clients of one server."""

    def __init__(self, server: ServedProcess, grpc_client: GrpcClient) -> None:
        self.tally = Tally()
        self._server = server
        self._grpc = grpc_client
        self._idle: list[RestClient] = []
        self._kinds: Sequence[Callable[[], Awaitable[None]]] = (
            self.rest,
            self.grpc,
            self.rest_error,
            self.grpc_error,
            self.rest_cancelled,
            self.grpc_cancelled,
        )

    async def one(self) -> None:
        """A request of any kind, to its end."""
        kind = self._kinds[_RANDOM.choice(len(SHARES), p=SHARES)]
        name = kind.__name__
        begun = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                await kind()
        except (WrongAnswer, OSError, EOFError, TimeoutError, grpc.aio.AioRpcError) as error:
            self.tally.outcomes[f"{name} failed"] += 1
            self.tally.faults[name, kind_of(error)] += 1
            return
        self.tally.outcomes[name] += 1
        if kind in (self.rest, self.grpc):
            self.tally.seconds.append(time.monotonic() - begun)

    async def rest(self) -> None:
        """An echo on a connection that is free, or on a new one."""
        client = self._idle.pop() if self._idle else RestClient(self._server.port)
        await client.echo()
        self._idle.append(client)

    async def grpc(self) -> None:
        """An echo."""
        await self._grpc.echo()

    async def rest_error(self) -> None:
        """A shape that the model has not, or a model that is not there."""
        client = self._idle.pop() if self._idle else RestClient(self._server.port)
        path, wanted = ((INFER, 400), ("/v2/models/other/infer", 404))[_RANDOM.integers(2)]
        status, body = await client.ask(b"POST", path, _BAD)
        _require(status == wanted and body.startswith(b'{"error":'), f"{status} {body!r:.200}")
        self._idle.append(client)

    async def grpc_error(self) -> None:
        """A datatype that the model has not, or a model that is not there."""
        code, fault = (
            (grpc.StatusCode.INVALID_ARGUMENT, {"datatype": "INT32"}),
            (grpc.StatusCode.NOT_FOUND, {"model": "other"}),
        )[_RANDOM.integers(2)]
        try:
            await self._grpc.infer(echo_message(payload(), **fault))
        except grpc.aio.AioRpcError as error:
            _require(error.code() is code, f"{error.code()} {error.details()}")
        else:
            raise WrongAnswer(f"an answer to {fault}")

    async def rest_cancelled(self) -> None:
        """A request whose client soon closes its connection."""
        async with RestClient(self._server.port) as client:
            await _cancelled(client.echo())

    async def grpc_cancelled(self) -> None:
        """A call that its client soon cancels."""
        await _cancelled(self._grpc.echo())

    def close(self) -> None:
        """Close the connections."""
        for client in self._idle:
            client.close()


def kind_of(error: BaseException) -> str:
    """Class, status and text of an error, without the numbers that each request has of its own."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {_DIGITS.sub('N', error.details() or '')[:_TEXT]}"
    return f"{type(error).__name__}: {_DIGITS.sub('N', str(error))[:_TEXT]}"


def _require(holds: bool, found: str) -> None:
    if not holds:
        raise WrongAnswer(found)


async def _cancelled(request: Awaitable[None]) -> None:
    task = asyncio.ensure_future(request)
    await asyncio.wait([task], timeout=_RANDOM.random() * 0.004)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        raise WrongAnswer(repr(task.exception()))


async def capacity(load: Load) -> float:
    """Requests a second of a closed loop."""
    end = time.monotonic() + _MEASURED

    async def client() -> int:
        count = 0
        while time.monotonic() < end:
            await load.one()
            count += 1
        return count

    return sum(await asyncio.gather(*(client() for _ in range(_CLIENTS)))) / _MEASURED


async def arrivals(load: Load, rate: float, seconds: float) -> None:
    """Requests at random moments, and their ends."""
    running: set[asyncio.Task[None]] = set()
    moment = time.monotonic()
    end = moment + seconds
    while moment < end:
        await asyncio.sleep(max(0, moment - time.monotonic()))
        task = asyncio.ensure_future(load.one())
        running.add(task)
        task.add_done_callback(running.discard)
        moment += _RANDOM.exponential(1 / rate)
    while running:
        await asyncio.wait(set(running))


async def sample(
    server: ServedProcess, load: Load, path: str, found: list[dict[str, Holding]]
) -> None:
    """Note what server and ranks hold, until this is cancelled."""
    begun = time.monotonic()
    while True:
        now = {"server": server.holds()}
        now |= {f"rank {number}": held_by(one) for number, one in enumerate(server.ranks())}
        found.append(now)
        seconds = load.tally.take_seconds()
        late = {f"p{part}": seconds[len(seconds) * part // 100] for part in (50, 99) if seconds}
        at = round(time.monotonic() - begun)
        write_line(path, at=at, **now, **late, load=os.getloadavg()[0], answered=len(seconds))
        await asyncio.sleep(_EVERY)


def print_samples(samples: list[dict[str, Holding]]) -> None:
    """How what each process holds has changed; the first sixth of the time is its warming up."""
    warm = samples[len(samples) // 6 :]
    rows = []
    for name in samples[0]:
        for unit in ("rss", "pss", "fds", "threads"):
            values = [getattr(one[name], unit) for one in warm if name in one]
            cells = [getattr(samples[0][name], unit), values[0], max(values), values[-1]]
            rows.append([name, unit, *map(str, cells)])
    print_table(["process", "", "at first", "after a sixth", "most after that", "at the end"], rows)


async def run(given: argparse.Namespace) -> None:
    """Measure the capacity, then load the server, and compare the counts of both sides."""
    with served("--threads", "1") as server:
        await server.ready()
        async with GrpcClient(server.grpc_port) as grpc_client:
            load = Load(server, grpc_client)
            rate = given.share * await capacity(load)
            print(
                f"load average {os.getloadavg()[0]:.1f}; {rate:.0f} requests a second", flush=True
            )
            samples: list[dict[str, Holding]] = []
            sampler = asyncio.ensure_future(sample(server, load, given.samples, samples))
            await arrivals(load, rate, given.seconds)
            sampler.cancel()
            load.close()
            await asyncio.sleep(1)
            print_samples(samples)
            print_counts(load.tally, server.counters())


def print_counts(tally: Tally, counters: dict[str, float]) -> None:
    """The outcomes that clients saw, and the server's counters."""
    outcomes = tally.outcomes
    print("clients:", dict(sorted(outcomes.items())))
    print("server:", {name: round(value) for name, value in counters.items()})
    ended = sum(counters.get(name, 0) for name in ("answered", "cancelled", "failed"))
    print("accepted = answered + cancelled + failed:", ended == counters["accepted"])
    more = counters["answered"] - outcomes["rest"] - outcomes["grpc"]
    given_up = outcomes["rest_cancelled"] + outcomes["grpc_cancelled"]
    print(f"answered, and not seen by clients that did not cancel: {more:.0f} of {given_up}")
    rows = [[name, kind, str(count)] for (name, kind), count in tally.faults.most_common()]
    print_table(["failed", "what its client saw", f"of {outcomes.total()}"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--share", type=float, default=0.7)
    parser.add_argument("--samples", default="/dev/null", help="a file for a line of JSON a sample")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
