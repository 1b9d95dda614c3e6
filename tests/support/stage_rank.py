"""One rank of a test of stages: sends tensors from device to device, on devices of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from host_device import HostDevice

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.backend import ReceivedForm
from rankmesh.comm.collectives.shared_memory.collectives import SharedMemoryCollectives
from rankmesh.comm.collectives.shared_memory.device_transfer import SLOT_BYTES
from rankmesh.comm.collectives.shared_memory.stage_tensors import hand_over_on_devices
from rankmesh.comm.errors import RankFailed, UsageError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.rendezvous.local_rendezvous import meet_locally
from rankmesh.comm.sharing.device_memory import MemoryDevice, Ticket
from rankmesh.worker.executors.torch.tensors import as_array

_SIZES = [3, 0, 1, SLOT_BYTES // 4 + 5, 7, 7, 7, 7, 7, 5 * SLOT_BYTES // 4, 2]


class Unreachable(HostDevice):
    """A device that cannot map the memory of others."""

    def open(self, ticket: Ticket, fd: int) -> Any:
        raise UsageError("no peer access")


class Stages:
    """The collectives of rank 0, which sends, or of rank 1, which receives."""

    def __init__(self, a: dict[str, Any], device: MemoryDevice | None) -> None:
        self.rank = rank = Rank(a["rank"], 2, a["rank"], 2, "testhost", a["rank"])
        arena = Arena.attach(a["fds"][0], rank.rank)
        pair = [(0, 1)]
        self.collectives = SharedMemoryCollectives(rank, arena, [], pair, a.get("timeout", 60))
        meeting = meet_locally(rank, a["key"], 60.0)
        hand_over_on_devices(self.collectives, rank, meeting.exchange, pair, device, self._tensor)

    def _tensor(self, form: ReceivedForm) -> torch.Tensor:
        return torch.empty(form.shape, dtype=getattr(torch, form.dtype.name))

    def call(self, index: int) -> Call:
        """The Send or the Receive number `index`."""
        group = RankGroup("pair", (0, 1))
        if self.rank.rank == 0:
            return Call(kind=Kind.SEND, group=group, index=index, node="stage", sends_to=(1,))
        return Call(kind=Kind.RECEIVE, group=group, index=index, node="stage", receives_from=(0,))

    def moved(self, index: int, x: torch.Tensor, on_host: bool) -> Any:
        """Send `x`, or receive what is like it: as a tensor, or as an array of the host."""
        call, sending = self.call(index), self.rank.rank == 0
        if on_host:
            out = np.empty(tuple(x.shape), as_array(x).dtype)
            self.collectives.run(call, [as_array(x)] if sending else [], [] if sending else [out])
            return as_array(x) if sending else out
        assert self.collectives.tensors is not None and self.collectives.tensors.takes(call)
        form = ReceivedForm(as_array(x).dtype, tuple(x.shape))
        given, received = ([x], ()) if sending else ([], [form])
        made = self.collectives.tensors.enqueue(call, given, False, received)
        return as_array(x) if sending else as_array(made[0])


def messages(a: dict[str, Any]) -> dict[str, Any]:
    """Messages of all sizes, of which each end takes tensors or arrays; then one that rank 1
    expects to be larger.
    """
    stages, wrong = Stages(a, HostDevice()), []
    for index, size in enumerate(_SIZES * 2):
        dtype = (torch.float32, torch.bfloat16, torch.int32)[index % 3]
        x = (torch.arange(size) % 100 + index).to(dtype)
        got = stages.moved(index, x, on_host=(index + stages.rank.rank) % 4 == 0)
        if not np.array_equal(got, as_array(x)):
            wrong.append(index)
    try:
        stages.moved(len(_SIZES) * 2, torch.zeros(4 + a["rank"]), on_host=False)
    except RankFailed as error:
        return {"wrong": wrong, "error": type(error).__name__, "text": str(error)}
    return {"wrong": wrong}


def unreachable(a: dict[str, Any]) -> dict[str, Any]:
    """Rank 1 cannot map the memory of rank 0: all goes by the host."""
    stages = Stages(a, Unreachable() if a["rank"] else HostDevice())
    got = stages.moved(0, torch.arange(5.0), on_host=True)
    return {"on_device": stages.collectives.tensors is not None, "got": got.tolist()}
