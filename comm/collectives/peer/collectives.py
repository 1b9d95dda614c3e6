"""Collectives of the peer backend: small AllReduces by our kernels, all else by nccl or gloo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...collective_call import Call
from ...sharing.cuda_memory import CudaDevice
from ..backend import Membership
from ..libraries.tensor_collectives import TorchTensorCollectives
from ..libraries.torch_distributed import TorchCollectives
from .all_reduce_kernels import MEMORY_BYTES
from .peer_all_reduce import GroupMemory, PeerAllReduce
from .peer_memory import PeerMemory


class PeerCollectives(TorchCollectives):
    """One rank's collectives. nccl refuses ranks that share a GPU: then gloo does the rest."""

    def __init__(self, membership: Membership) -> None:
        """Join; all ranks of the job call this together."""
        m = membership
        torch.cuda.set_device(m.rank.device)
        gpu = CudaDevice(m.rank.device)
        devices = m.exchange(gpu.name.encode())
        other = "nccl" if len(set(devices)) == len(devices) else "gloo"
        super().__init__(other, m)
        groups = [members for members in sorted(set(m.groups)) if len(members) > 1]
        memory = PeerMemory(gpu, m.rank, m.exchange, max(1, len(groups)) * MEMORY_BYTES)
        self.tensors = PeerTensorCollectives(self, self._tracker, m.rank)
        self.tensors.use(memory, groups, torch.device("cuda", m.rank.device))
        self.name = "peer"


class PeerTensorCollectives(TorchTensorCollectives):
    """See TensorCollectives; AllReduces that the kernels take run by them."""

    def use(
        self, memory: PeerMemory, groups: Sequence[tuple[int, ...]], device: torch.device
    ) -> None:
        """Take the memory of the groups, in their order."""
        self._memory = memory
        self._device = device
        self._groups = {
            members: GroupMemory.of(memory.addresses, members, number)
            for number, members in enumerate(groups)
        }

    def carry_out(self, call: Call) -> Any:
        """See TrackedCollectives.carry_out."""
        other = super().carry_out(call)
        if not PeerAllReduce.fits(call):
            return other
        members = call.group.ranks
        position = members.index(self._rank.rank)
        ours = PeerAllReduce(call, position, self._groups[members], self._device)

        def run(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
            if ours.takes(inputs[0]):
                ours(inputs[0], outputs[0])
            else:
                other(inputs, outputs)

        return run
