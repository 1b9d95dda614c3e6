"""One rank of one contender of hosts_allreduce.py: times AllReduce for each size, and prints the
medians from rank 0.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable
from itertools import count

import torch
import torch.distributed as dist
from allreduce_rank import Reduce, measure

# bytes: repetitions
SIZES = {4096: 150, 64 * 1024: 100, 1024**2: 40, 16 * 1024**2: 6}
_WORLD, _EACH = 4, 2
_ADDRESS = "10.78.0.1"


def by_backend(name: str, rank: int, store: str, arena_fd: int) -> Reduce:
    """Ours: a backend of Rankmesh."""
    from rankmesh.comm.collective_call import Call, Kind, RankGroup
    from rankmesh.comm.collectives.backend import Membership
    from rankmesh.comm.collectives.registry import backend_named
    from rankmesh.comm.job.rank import Rank
    from rankmesh.comm.job_memory.arena import Arena

    host, everybody = rank // _EACH, tuple(range(_WORLD))
    membership = Membership(
        rank=Rank(rank, _WORLD, rank % _EACH, _EACH, f"host{host}", rank % _EACH),
        arena=Arena.attach(arena_fd, rank),
        exchange=_exchange(dist.FileStore(store, _WORLD), rank),
        groups=[everybody],
        pairs=[],
        timeout=60,
        local=frozenset(range(host * _EACH, (host + 1) * _EACH)),
        address=_ADDRESS,
    )
    collectives = backend_named(name).join(membership)
    call = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", everybody))
    return lambda x, out: collectives.run(call, [x], [out])


def _exchange(store: dist.Store, rank: int) -> Callable[[bytes], list[bytes]]:
    turns = count()

    def exchange(payload: bytes) -> list[bytes]:
        turn = next(turns)
        store.set(f"{turn}/{rank}", payload.hex())
        return [bytes.fromhex(store.get(f"{turn}/{peer}").decode()) for peer in range(_WORLD)]

    return exchange


def bare(rank: int, store: str) -> Reduce:
    """torch.distributed itself, in place as it only can."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=_WORLD)
    atexit.register(dist.destroy_process_group)
    return lambda x, out: dist.all_reduce(torch.from_numpy(x))


def main() -> None:
    contender, store, arena_fd, rank = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank // _EACH % len(cores)]})
    torch.set_num_threads(1)
    plain = contender == "torch.distributed"
    reduce = bare(rank, store) if plain else by_backend(contender, rank, store, arena_fd)
    medians = measure(reduce, SIZES)
    if rank == 0:
        print(json.dumps(medians))


if __name__ == "__main__":
    main()
