"""How soon survivors know: from kill -9 of a rank inside a collective to the survivors' error.

    python bench/detection.py [--rounds 30] [--ranks 3]

The parent watches pidfds, as `rankmesh run` does, and aborts the arena; a survivor stamps the
monotonic clock when its collective raises.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from statistics import median

import numpy as np

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.shared_memory.collectives import SharedMemoryCollectives
from rankmesh.comm.errors import CollectiveAborted
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena, Cause
from rankmesh.comm.job_memory.progress import Progress


def rank_main(fd: int, rank: int, world: int) -> None:
    """AllReduce until aborted, then print when that was."""
    everybody = tuple(range(world))
    collectives = SharedMemoryCollectives(
        Rank(rank, world, rank, world, "bench", rank), Arena.attach(fd, rank), [everybody], [], 60
    )
    call = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", everybody))
    x = np.zeros(96 * 1024, np.float32)
    try:
        while True:
            collectives.run(call, [x], [x])
    except CollectiveAborted:
        print(time.monotonic_ns())


def detect(world: int) -> list[float]:
    """One round: milliseconds of each survivor."""
    arena = Arena.create(world)
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", str(arena.fd), str(rank), str(world)],
            pass_fds=(arena.fd,),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    _wait_until_running(arena)
    victim = ranks[-1]
    pidfd = os.pidfd_open(victim.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    killed = time.monotonic_ns()
    victim.send_signal(signal.SIGKILL)
    poll.poll()
    arena.abort(world - 1, Cause.DIED, f"rank {world - 1} was killed")
    stamps = [int(rank.communicate()[0]) for rank in ranks[:-1]]
    victim.communicate()
    os.close(pidfd)
    arena.close()
    return [(stamp - killed) / 1e6 for stamp in stamps]


def _wait_until_running(arena: Arena) -> None:
    for rank in range(arena.world_size):
        while not (done := Progress(arena, rank).read().finished) or done.count < 100:
            time.sleep(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--rank", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank_main(*options.rank)
        return
    times = [ms for _ in range(options.rounds) for ms in detect(options.ranks)]
    print(
        f"{options.ranks} ranks, {options.rounds} kills: median {median(times):.2f} ms, slowest "
        f"{max(times):.2f} ms"
    )


if __name__ == "__main__":
    main()
