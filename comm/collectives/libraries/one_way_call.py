"""One-way calls over torch.distributed: Send, Receive and NeighborExchange, as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ...collective_call import Call
from ..parts import Array
from .torch_groups import TorchGroup


class OneWayTensors:
    """One Send or Receive between different ranks, on tensors, in the order of a device's work."""

    def __init__(self, call: Call, world: TorchGroup) -> None:
        peers = call.sends_to or call.receives_from
        self._act = dist.isend if call.sends_to else dist.irecv
        self._peer = call.group.ranks[peers[0]]
        self._world = world
        self._tag = call.tag

    def __call__(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Send the input, or receive the output; both are contiguous."""
        tensor = (*inputs, *outputs)[0].view(-1).view(torch.uint8)
        operation = dist.P2POp(self._act, tensor, self._peer, self._world.group, self._tag)
        for request in dist.batch_isend_irecv([operation]):
            request.wait()  # the work behind it waits, and on a device not the host


class OneWayCall:
    """One Send, Receive or NeighborExchange of a rank's program."""

    def __init__(self, call: Call, rank: int, world: TorchGroup) -> None:
        self._tag = call.tag
        self._rank = rank
        self._world = world
        self._to = [call.group.ranks[p] for p in call.sends_to]
        self._from = [call.group.ranks[p] for p in call.receives_from]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """gloo refuses messages to oneself: they are copied."""
        own = [x for to, x in zip(self._to, inputs, strict=True) if to == self._rank]
        received, operations = [], []
        for source, out in zip(self._from, outputs, strict=True):
            if source == self._rank:
                out[...] = own.pop(0)
            else:
                tensor = self._world.bytes(out)
                received.append((out, tensor))
                operations.append(self._operation(dist.irecv, tensor, source))
        operations += [
            self._operation(dist.isend, self._world.bytes(x), to)
            for to, x in zip(self._to, inputs, strict=True)
            if to != self._rank
        ]
        for request in dist.batch_isend_irecv(operations) if operations else []:
            request.wait()
        for out, tensor in received:
            self._world.fill(out, tensor)

    def _operation(self, act: Callable[..., Any], tensor: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(act, tensor, peer, self._world.group, self._tag)
