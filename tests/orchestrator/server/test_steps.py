"""Work in steps: it ends with its coroutine and with its server, and errors reach the caller."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import zlib

import pytest
from processes import wait_until

from rankmesh.orchestrator.server.faults import TooLong
from rankmesh.orchestrator.server.inflation import inflate
from rankmesh.orchestrator.server.steps import Steps, StepThreads, finished

pytestmark = pytest.mark.pure
EMPTY = gzip.compress(b"")


class Endless:
    """Work without an end, which notes whether it has begun and has ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    def steps(self) -> Steps[None]:
        self.begun.set()
        try:
            while True:
                yield
        finally:
            self.ended.set()


def test_work_ends_with_the_coroutine_that_waits_for_it() -> None:
    async def leave() -> None:
        task = asyncio.ensure_future(threads.run(endless.steps()))
        while not endless.begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])

    threads, endless = StepThreads(), Endless()
    asyncio.run(leave())
    wait_until(endless.ended.is_set, "the work to end")
    threads.close()


def test_work_ends_with_the_threads_and_none_begins_after_them() -> None:
    async def close() -> None:
        tasks = [asyncio.ensure_future(threads.run(each.steps())) for each in works]
        while not works[0].begun.is_set():
            await asyncio.sleep(0.001)
        threads.close()
        late = asyncio.ensure_future(threads.run(Endless().steps()))
        for each in (*tasks, late):
            with pytest.raises(asyncio.CancelledError):
                await each

    threads, works = StepThreads(), [Endless() for _ in range(5)]
    asyncio.run(close())
    wait_until(works[0].ended.is_set, "the work to end")


def test_results_and_errors_reach_the_coroutine() -> None:
    threads = StepThreads()
    assert asyncio.run(threads.run(inflate(EMPTY, 9))) == b""
    with pytest.raises(TooLong, match="more than 9 bytes"):
        asyncio.run(threads.run(inflate(gzip.compress(bytes(10)), 9)))
    threads.close()


@pytest.mark.parametrize("size", [0, 1, 5000, 3_000_000])
@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("data", [bytes, os.urandom])
def test_members_are_inflated_one_after_the_other(size, compress, data) -> None:
    sent = data(size)
    assert finished(inflate(compress(sent), size)) == sent
    assert finished(inflate(compress(sent) + EMPTY * 300 + compress(b"end"), size + 3)) == (
        sent + b"end"
    )
    with pytest.raises(zlib.error):
        finished(inflate(compress(sent)[:-1], size))
    with pytest.raises(TooLong):
        finished(inflate(compress(sent + b"x"), size))


def test_no_step_has_much_work_whatever_the_members_are() -> None:
    """A step takes 4 KiB and gives 1 MiB at most, and has one member."""
    for sent, least in ((EMPTY * 10_000, 10_000), (gzip.compress(bytes(64 << 20)), 64)):
        assert sum(1 for _ in inflate(sent, 1 << 30)) >= least
