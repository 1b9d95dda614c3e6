"""Which ranks of a job share a host, as far as an arena tells: they told each other where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from .arena import Arena
from .decoding import decode_payloads


class Here(msgspec.Struct, frozen=True):
    """What a rank tells the others: its machine and the file that is its arena, and its process."""

    boot: str
    arena: int
    process: int


def meet_neighbours(exchange: Callable[[bytes], list[bytes]], arena: Arena) -> dict[int, int]:
    """The ranks that have this `arena`, this one too, and their processes. All ranks of the job call this."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    mine = Here(boot, os.fstat(arena.fd).st_ino, os.getpid())
    everybody = decode_payloads(exchange(msgspec.msgpack.encode(mine)), Here)
    return {r: here.process for r, here in enumerate(everybody) if (here.boot, here.arena) == (mine.boot, mine.arena)}
