"""One-way calls over torch.distributed: Send, Receive and NeighborExchange, as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ...collective_call import Call
from ..parts import Array
from .torch_groups import TorchGroup


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
