"""One rank of a test: joins the arena it was given, plays a scenario, and prints what came of it as
JSON. fork_server.py starts it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from collective_cases import large_cases, make_cases, play

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.backend import (
    Collectives,
    Membership,
    ReceivedForm,
    TensorCollectives,
)
from rankmesh.comm.collectives.registry import SHARED_MEMORY, backend_named
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.progress import Progress, Stage
from rankmesh.comm.rendezvous.local_rendezvous import meet_locally
from rankmesh.comm.rendezvous.rendezvous import Rendezvous, SingleRank
from rankmesh.comm.serving.tensor_spec import dtype_named

Arguments = dict[str, Any]


def _join(
    a: Arguments,
    groups: list[tuple[int, ...]],
    pairs: list[tuple[int, int]],
) -> tuple[Collectives, Progress]:
    """The collectives of implementation `by`; those of torch meet at a server, as ranks without a
    supervisor do.
    """
    world, by, timeout = a["world"], a.get("by", SHARED_MEMORY), a.get("timeout", 60)
    host = next(host for host in a["hosts"] if a["rank"] in host)
    rank = Rank(a["rank"], world, host.index(a["rank"]), len(host), "testhost", a["rank"])
    if len(a["hosts"]) > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    arena = Arena.attach(a["fds"][0], rank.rank)
    meeting: Rendezvous = (
        SingleRank(rank)
        if by == SHARED_MEMORY or world == 1
        else meet_locally(rank, a["key"], 60.0)
    )
    membership = Membership(
        rank=rank,
        arena=arena,
        exchange=meeting.exchange,
        groups=groups,
        pairs=pairs,
        timeout=timeout,
        local=frozenset(host),
        address="127.0.0.1",
    )
    return backend_named(by).join(membership), Progress(arena, rank.rank)


def compare(a: Arguments) -> Arguments:
    """Run the cases that this rank is a member of, by the implementation `by`, and compare with
    numpy.
    """
    world = a["world"]
    cases = (
        make_cases(world, a["seed"], a["count"], a["kinds"]) if a["count"] else large_cases(world)
    )
    pairs = [(s, d) for s in range(world) for d in range(world)]
    collectives, _ = _join(a, [case.members for case in cases], pairs)
    wrong, digests = play(collectives, cases, a["rank"], in_order=a["by"] == SHARED_MEMORY)
    collectives.close()
    return {
        "wrong": wrong[:5],
        "cases": len(cases),
        "named": _shared_memory_files(),
        "digests": digests,
    }


def tensors(a: Arguments) -> Arguments:
    """Collectives on tensors, compared with numpy; then one that is recorded and run again.

    With `absent` rank 1 stays away from the last run.
    """
    import torch
    from tensor_player import OnTensors

    world, rank = tuple(range(a["world"])), a["rank"]
    cases = make_cases(a["world"], a["seed"], a["count"], a["kinds"])
    collectives, _ = _join(a, [world, *(case.members for case in cases)], [(0, 1)])
    on_tensors = collectives.tensors  # type: ignore[attr-defined]
    wrong, digests = play(OnTensors(on_tensors), cases, rank, in_order=False)
    call = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", world), index=3, node="recorded")
    (made,) = on_tensors.enqueue(call, [torch.full((5,), rank + 1.0)], True, ())
    wrong += [] if made.sum() == 5 * sum(one + 1 for one in world) else [str(made)]
    wrong += _transferred(on_tensors, rank)
    recorded = on_tensors.recorded()
    with on_tensors.following(recorded) as check:
        check()
    answer = {"wrong": wrong[:5], "digests": digests, "recorded": len(recorded), "error": ""}
    if a["absent"] and rank == 1:
        sys.stdin.read()
        return answer

    def wait() -> None:
        with on_tensors.following(recorded) as check:
            while True:
                check()

    return {**answer, **(_until_failure(wait) if a["absent"] else {})}


def stages(a: Arguments) -> Arguments:
    """What `play` of stage_rank.py says."""
    import stage_rank

    found: Arguments = getattr(stage_rank, a["play"])(a)
    return found


def _transferred(on_tensors: TensorCollectives, rank: int) -> list[str]:
    """What is wrong with two tensors that rank 0 sends to rank 1."""
    import torch

    pair = RankGroup("pair", (0, 1))
    ends = {"sends_to": (1,)}, {"receives_from": (0,)}
    kind = (Kind.SEND, Kind.RECEIVE)[rank]
    wrong = []
    for index, x in enumerate((torch.arange(6.0).reshape(2, 3), torch.ones(4).bfloat16())):
        call = Call(kind=kind, group=pair, index=4 + index, node="stage", **ends[rank])
        name = str(x.dtype).removeprefix("torch.")
        form = ReceivedForm(dtype_named(name), tuple(x.shape))
        sent, received = ([x], ()) if rank == 0 else ([], [form])
        made = on_tensors.enqueue(call, sent, False, received)
        wrong += [] if rank == 0 or torch.equal(made[0], x) else [str(made)]
    return wrong


def _shared_memory_files() -> list[str]:
    with open("/proc/self/maps") as maps:
        return [line for line in maps if "/dev/shm" in line]


def repeat(a: Arguments) -> Arguments:
    """AllReduce until something ends it."""
    world = tuple(range(a["world"]))
    collectives, _ = _join(a, [world], [])
    call = Call(
        kind=Kind.ALL_REDUCE, group=RankGroup("world", world), index=3, node="mlp/AllReduce-op1"
    )
    x = np.ones(a["size"], np.float32)
    return _until_failure(lambda: collectives.run(call, [x], [np.empty_like(x)]))


def absent(a: Arguments) -> Arguments:
    """The last rank does one AllReduce and then stays in its stage; the others go on."""
    world = tuple(range(a["world"]))
    collectives, progress = _join(a, [world], [])
    first = Call(kind=Kind.ALL_REDUCE, group=RankGroup("world", world), index=0, node="first")
    second = Call(kind=Kind.ALL_GATHER, group=RankGroup("world", world), index=1, node="second")
    x = np.ones(4, np.float32)
    collectives.run(first, [x], [x])
    if a["rank"] == a["world"] - 1:
        progress.stage = Stage.BUILDING
        sys.stdin.read()
        return {}
    return _until_failure(
        lambda: collectives.run(second, [x], [np.empty(4 * a["world"], np.float32)])
    )


def chain(a: Arguments) -> Arguments:
    """Rank 0 waits for rank 1, which waits for rank 2, which does nothing."""
    world = (0, 1, 2)
    collectives, progress = _join(a, [], [(1, 0), (2, 1)])
    if a["rank"] == 2:
        progress.stage = Stage.READING
        sys.stdin.read()
        return {}
    call = Call(
        kind=Kind.RECEIVE,
        group=RankGroup("world", world),
        node="recv",
        receives_from=(a["rank"] + 1,),
    )
    return _until_failure(lambda: collectives.run(call, [], [np.empty(4, np.float32)]))


def mismatch(a: Arguments) -> Arguments:
    """Each rank enters what `enters` says: kind, size and dtype."""
    world = tuple(range(a["world"]))
    collectives, _ = _join(a, [world], [])
    kind, size, dtype = a["enters"][a["rank"]]
    x = np.zeros(size, dtype)
    out = np.zeros(size * (len(world) if kind == "AllGather" else 1), dtype)
    call = Call(kind=Kind(kind), group=RankGroup("world", world), index=7, node=f"node{a['rank']}")
    return _until_failure(lambda: collectives.run(call, [x], [out]))


def mismatched_pair(a: Arguments) -> Arguments:
    """Rank 0 sends 4 numbers, rank 1 expects 5."""
    collectives, _ = _join(a, [], [(0, 1)])
    group = RankGroup("world", (0, 1))
    if a["rank"] == 0:
        collectives.run(
            Call(kind=Kind.SEND, group=group, node="send", sends_to=(1,)), [np.zeros(4)], []
        )
        return {}
    call = Call(kind=Kind.RECEIVE, group=group, node="receive", receives_from=(0,))
    return _until_failure(lambda: collectives.run(call, [], [np.empty(5)]))


def again(a: Arguments) -> Arguments:
    """One collective on the same arrays again and again; rank 1 takes others now and then.

    The rounds whose results numpy does not give.
    """
    kind, world, size, rank = Kind(a["kind"]), a["world"], a["size"], a["rank"]
    collectives, _ = _join(a, [tuple(range(world))], [])
    call = Call(kind=kind, group=RankGroup("world", tuple(range(world))), index=0, node="again")
    gathers, scatters = kind is Kind.ALL_GATHER, kind is Kind.REDUCE_SCATTER
    x = np.zeros(size * (1 if gathers else world), np.float32)
    out = np.zeros(size if scatters else size * world, np.float32)
    wrong = []
    for turn in range(a["turns"]):
        if rank == 1 and turn % 4 == 3:
            x, out = np.empty_like(x), np.empty_like(out)
        given = [np.arange(x.size, dtype=np.float32) + 7 * turn + member for member in range(world)]
        x[...] = given[rank]
        collectives.run(call, [x], [out])
        parts = [one.reshape(-1, size)[0 if gathers else rank] for one in given]
        if not np.array_equal(out, sum(parts) if scatters else np.concatenate(parts)):
            wrong.append(turn)
    return {"wrong": wrong}


def _until_failure(step: Callable[[], None]) -> Arguments:
    while True:
        try:
            step()
        except RankFailed as error:
            return {"error": type(error).__name__, "text": str(error)}


def main(arguments: Arguments) -> None:
    """Play the scenario `scenario`, and end at once: gloo would wait for ranks that are gone."""
    try:
        print(json.dumps(globals()[arguments["scenario"]](arguments)), flush=True)
    except BaseException:
        traceback.print_exc()
    os._exit(0)
