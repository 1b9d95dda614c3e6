"""AllReduce by the memory of peers: the memory everywhere, the kernels in Triton's interpreter.

`TRITON_INTERPRET=1 pytest tests/comm/test_peer_collectives.py` needs triton, and no GPU.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import pytest
from host_device import HostDevice

from rankmesh.comm.collective_call import Call, Kind, RankGroup, Reduction
from rankmesh.comm.collectives.backend import JobSite
from rankmesh.comm.collectives.peer.backend import PEER
from rankmesh.comm.collectives.peer.peer_memory import PeerMemory
from rankmesh.comm.job.rank import Rank

_FORK = multiprocessing.get_context("fork")
_PATIENCE = 120.0
interpreted = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs triton, and TRITON_INTERPRET=1",
)
Work = Callable[[Rank, PeerMemory], Any]


def _rank(pipe: Connection, rank: int, world: int, size: int, work: Work) -> None:
    def exchange(payload: bytes) -> list[bytes]:
        pipe.send(payload)
        found: list[bytes] = pipe.recv()
        return found

    try:
        here = Rank(rank, world, rank, world, "testhost", 0)
        memory = PeerMemory(HostDevice(f"host {rank}"), here, exchange, size)
        pipe.send(("done", work(here, memory)))
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))
    pipe.recv()


def _in_ranks(world: int, size: int, work: Work) -> list[Any]:
    """What `work` gives on each rank; all stay until all are done."""
    pipes = [_FORK.Pipe() for _ in range(world)]
    ranks = [
        _FORK.Process(target=_rank, args=(theirs, rank, world, size, work), daemon=True)
        for rank, (_, theirs) in enumerate(pipes)
    ]
    for rank in ranks:
        rank.start()
    answers: list[Any] = []
    while not answers:
        said = []
        for mine, _ in pipes:
            assert mine.poll(_PATIENCE)
            said.append(mine.recv())
        if isinstance(said[0], bytes):
            for mine, _ in pipes:
                mine.send(said)
        else:
            answers = said
    for (mine, _), rank in zip(pipes, ranks, strict=True):
        mine.send("end")
        rank.join()
    assert [how for how, _ in answers] == ["done"] * world, answers
    return [found for _, found in answers]


def _note(rank: Rank, memory: PeerMemory) -> list[int]:
    """Write to one's own memory, and wait for what the others have written to theirs."""
    import ctypes

    words = [ctypes.c_int64.from_address(address) for address in memory.addresses]
    assert words[rank.rank].value == 0
    words[rank.rank].value = rank.rank + 7
    while not all(word.value for word in words):
        os.sched_yield()
    return [word.value for word in words]


def test_every_rank_sees_the_memory_of_all() -> None:
    assert _in_ranks(3, 4096, _note) == [[7, 8, 9]] * 3


@pytest.mark.pure
@pytest.mark.parametrize(
    ("site", "text"),
    [
        (JobSite("cpu", "", True), "and the ranks are on cpu"),
        (JobSite("gpu", "", False), "and the ranks are on several hosts: choose nccl"),
    ],
)
def test_where_it_cannot_serve(site: JobSite, text: str) -> None:
    assert PEER.obstacle(site).startswith(text)


CASES = [
    ("float32", 5, Reduction.SUM),
    ("float32", 3000, Reduction.SUM),
    ("float16", 2500, Reduction.SUM),
    ("bfloat16", 5000, Reduction.MAX),
    ("int64", 700, Reduction.PROD),
    ("float32", 1, Reduction.MIN),
    ("float64", 1025, Reduction.SUM),
    ("int32", 4097, Reduction.SUM),
    ("float16", 9000, Reduction.SUM),
] * 2


def _reduce(two_shot: bool, rank: Rank, memory: PeerMemory) -> list[str]:
    """All cases one after the other, of changing sizes and dtypes; those that are wrong."""
    import torch

    from rankmesh.comm.collectives.peer import peer_all_reduce
    from rankmesh.comm.collectives.peer.peer_all_reduce import GroupMemory, PeerAllReduce

    if two_shot:
        peer_all_reduce.ONE_SHOT_BYTES[rank.world_size] = 0
    members, wrong = tuple(range(rank.world_size)), []
    group = GroupMemory.of(memory.addresses, members, 0)
    for number, (name, size, reduction) in enumerate(CASES):
        dtype = getattr(torch, name)
        call = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", members), reduction=reduction)
        given = [
            ((torch.arange(size) * 7 + 3 * one + number) % 11 + 1).to(dtype) for one in members
        ]
        reduced = PeerAllReduce(call, rank.rank, group, torch.device("cpu"))
        assert reduced.fits(call) and reduced.takes(given[0])
        out = torch.empty(size, dtype=dtype)
        reduced(given[rank.rank], out)
        whole = torch.stack([one.double() for one in given])
        wanted = {
            Reduction.SUM: whole.sum(0),
            Reduction.MAX: whole.amax(0),
            Reduction.MIN: whole.amin(0),
            Reduction.PROD: whole.prod(0),
        }[reduction]
        if not torch.equal(out.double(), wanted):
            wrong.append(f"{number}: {name} {size} {reduction}")
    return wrong


@interpreted
@pytest.mark.parametrize(("world", "two_shot"), [(2, False), (2, True), (3, False), (4, True)])
def test_kernels_reduce_as_torch_does(world: int, two_shot: bool) -> None:
    from rankmesh.comm.collectives.peer.all_reduce_kernels import MEMORY_BYTES

    assert _in_ranks(world, MEMORY_BYTES, partial(_reduce, two_shot)) == [[]] * world
