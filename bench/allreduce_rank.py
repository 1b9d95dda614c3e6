"""One rank of one contender of allreduce.py: times AllReduce for each size and prints the medians
from rank 0.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

# bytes: repetitions
SIZES = {4096: 600, 64 * 1024: 600, 384 * 1024: 300, 1024**2: 150, 16 * 1024**2: 24}

Reduce = Callable[[np.ndarray, np.ndarray], None]


def ours(rank: int, world: int, fd: str) -> Reduce:
    """Shared memory: `fd` is the inherited arena."""
    from rankmesh.comm.collective_call import Call, Kind, RankGroup
    from rankmesh.comm.collectives.shared_memory.collectives import SharedMemoryCollectives
    from rankmesh.comm.job.rank import Rank
    from rankmesh.comm.job_memory.arena import Arena

    everybody = tuple(range(world))
    collectives = SharedMemoryCollectives(
        Rank(rank, world, rank, world, "bench", rank),
        Arena.attach(int(fd), rank),
        [everybody],
        [],
        60,
    )
    call = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", everybody))
    return lambda x, out: collectives.run(call, [x], [out])


def gloo(rank: int, world: int, store: str) -> Reduce:
    """torch.distributed, in place as it only can."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    atexit.register(dist.destroy_process_group)

    def reduce(x: np.ndarray, out: np.ndarray) -> None:
        dist.all_reduce(torch.from_numpy(x))

    return reduce


def mpi() -> tuple[int, Reduce]:
    """Open MPI through mpi4py, started by mpirun."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.Get_rank(), lambda x, out: world.Allreduce(x, out)


def measure(reduce: Reduce, sizes: Mapping[int, int], shrink: int = 1) -> dict[int, float]:
    """Median microseconds of each size, after a fifth of the repetitions as warm-up."""
    medians = {}
    for nbytes, repetitions in sizes.items():
        repetitions //= shrink
        x, out = np.zeros(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
        times = []
        for _ in range(repetitions // 5 + repetitions):
            begun = time.perf_counter_ns()
            reduce(x, out)
            times.append(time.perf_counter_ns() - begun)
        medians[nbytes] = median(times[repetitions // 5 :]) / 1e3
    return medians


def main() -> None:
    contender, where = sys.argv[1], sys.argv[2]
    rank, world = int(os.environ.get("OMPI_COMM_WORLD_RANK", sys.argv[3])), int(sys.argv[4])
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    if contender == "mpi":
        rank, reduce = mpi()
    else:
        reduce = {"ours": ours, "gloo": gloo}[contender](rank, world, where)
    medians = measure(reduce, SIZES, 4 if contender == "gloo" else 1)
    if rank == 0:
        print(json.dumps(medians))


if __name__ == "__main__":
    main()
