"""What requests needed of shared memory is given back when none come."""

from __future__ import annotations

import os

import numpy as np
import pytest
from processes import wait_until

from rankmesh.comm.request_memory.idle_memory import IdleMemory
from rankmesh.comm.request_memory.owned_arena import OwnedArena, Region
from rankmesh.orchestrator.event_loop.loop import EventLoopThread, IdleTrim


def bytes_of(arena: OwnedArena, region: Region) -> np.ndarray:
    return arena.view(region.offset, np.dtype(np.uint8), (region.size,), region.size)


def taken(arena: OwnedArena) -> int:
    return os.fstat(arena.fd).st_blocks * 512


def test_idle_memory_is_given_back_and_what_is_held_stays():
    arena, loop = OwnedArena(1 << 30, 1 << 30), EventLoopThread()
    loop.start()
    try:
        IdleTrim(arena, loop, 0.02)
        for _ in range(2):  # and again, after it was in use once more
            kept, big = arena.allocate(8192), arena.allocate(32 << 20)
            bytes_of(arena, kept)[:], bytes_of(arena, big)[:] = 107, 120
            assert taken(arena) >= 32 << 20
            del big
            wait_until(lambda: taken(arena) < 1 << 20, "memory to be given back")
            assert (bytes_of(arena, kept) == 107).all()
    finally:
        loop.stop()
        loop.join()
        arena.close()


@pytest.mark.pure
def test_a_second_look_without_use_gives_memory_back_and_a_closed_arena_ends_the_looks() -> None:
    arena = OwnedArena(0, 1 << 30)
    memory = IdleMemory(arena)
    bytes_of(arena, arena.allocate(1 << 20))[:] = 107
    assert memory.look() and taken(arena) >= 1 << 20
    assert memory.look() and taken(arena) == 0
    arena.close()
    assert not memory.look()
