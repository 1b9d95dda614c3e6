"""NCCL in a world of one rank: every collective on tensors, and AllReduce inside a CUDA graph."""

from __future__ import annotations

import torch

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.backend import Membership
from rankmesh.comm.collectives.libraries.torch_distributed import TorchCollectives
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.worker.executors.torch.device_queue import TorchQueue

from ..figures import Figure

_KINDS = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.BROADCAST)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)


def measure(device: str) -> list[Figure]:
    """How many collectives give something else than what they were given."""
    place = torch.device("cuda", 0) if device == "gpu" else torch.device("cpu")
    collectives = _joined("nccl" if device == "gpu" else "gloo")
    wrong = [
        f"{kind.value} of {dtype}"
        for kind in _KINDS
        for dtype in _DTYPES
        if not _same(collectives, kind, torch.arange(6, device=place).to(dtype))
    ]
    print("; ".join(wrong))
    figures = [Figure("collectives on tensors that are wrong", len(wrong), most=0)]
    if device == "gpu":
        figures.append(Figure("replays of a graph that are wrong", _replayed(collectives), most=0))
    collectives.close()
    return figures


def _joined(backend: str) -> TorchCollectives:
    rank = Rank(0, 1, 0, 1, "host", 0)
    return TorchCollectives(
        backend,
        Membership(
            rank=rank,
            arena=Arena.create(1),
            exchange=lambda payload: [payload],
            groups=[(0,)],
            pairs=[],
            timeout=20.0,
            local=frozenset((0,)),
        ),
    )


def _call(kind: Kind) -> Call:
    return Call(kind=kind, group=RankGroup("world", (0,)), node=kind.value)


def _same(collectives: TorchCollectives, kind: Kind, x: torch.Tensor) -> bool:
    """Whether a collective of the library, not our copy for groups of one, gives its operand."""
    out = torch.empty_like(x)
    collectives.tensors.carry_out(_call(kind))([x], [out])
    return torch.equal(x, out)


def _replayed(collectives: TorchCollectives) -> int:
    """How many of three replays of a captured AllReduce give wrong numbers."""
    queue = TorchQueue(torch.device("cuda", 0))
    x = torch.zeros(1024, device="cuda")
    out = torch.empty_like(x)
    reduce = collectives.tensors.carry_out(_call(Kind.ALL_REDUCE))
    wrong = 0
    with queue.working():
        reduce([x], [out])
        made = queue.record(lambda: [reduce([x], [out]) or out])
        assert made is not None
        for number in range(1, 4):
            x.fill_(number)
            made[0]()
            wrong += int(not (out == number).all().item())
    return wrong
