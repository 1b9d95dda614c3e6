"""Host peers: the ranks of a job that share an arena, and the ends of their processes."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from ..decoding import decode_payloads
from .arena import Arena
from .progress import Progress, Stage

_LARGEST = 1 << 22
"""The largest process id that Linux gives."""


class HostPeer(msgspec.Struct, frozen=True):
    """The host of a rank: the machine's boot id, the inode of its arena, and its process id."""

    boot: str
    arena: int
    process: Annotated[int, msgspec.Meta(gt=0, le=_LARGEST)]


def meet_host_peers(exchange: Callable[[bytes], list[bytes]], arena: Arena) -> dict[int, int]:
    """The process ids of the ranks that have this `arena`, by rank, this rank's too.

    All ranks of the job call this together; `exchange` is that of their rendezvous.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    mine = HostPeer(boot, os.fstat(arena.fd).st_ino, os.getpid())
    peers = decode_payloads(exchange(msgspec.msgpack.encode(mine)), HostPeer)
    return {
        r: here.process
        for r, here in enumerate(peers)
        if (here.boot, here.arena) == (mine.boot, mine.arena)
    }


def watch_processes(processes: dict[int, int], arena: Arena) -> None:
    """Note in the arena which ranks have ended, in whatever way they end.

    `processes` are the process ids of these ranks.
    """
    poll = select.poll()
    ranks_by_fd: dict[int, int] = {}
    for rank, pid in processes.items():
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            Progress(arena, rank).stage = Stage.ENDED
            continue
        poll.register(fd, select.POLLIN)
        ranks_by_fd[fd] = rank

    def wait() -> None:
        while ranks_by_fd:
            for fd, _ in poll.poll():
                Progress(arena, ranks_by_fd.pop(fd)).stage = Stage.ENDED
                poll.unregister(fd)
                os.close(fd)

    threading.Thread(target=wait, name="rankmesh-watch", daemon=True).start()
