"""Peer AllReduce: chooses the kernel and the memory for a small tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton.language as tl

from ...collective_call import Call, Kind, Reduction
from .all_reduce_kernels import (
    MAX,
    MEMORY_BYTES,
    MIN,
    MOST_BYTES,
    PROD,
    SPAN_BYTES,
    SUM,
    one_shot,
    two_shot,
)

_OPERATIONS = {
    Reduction.SUM: SUM,
    Reduction.MAX: MAX,
    Reduction.MIN: MIN,
    Reduction.PROD: PROD,
}
_WIDE = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float32,
    torch.bfloat16: tl.float32,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
}
"""The dtype in which elements are combined."""
ONE_SHOT_BYTES = {2: MOST_BYTES, 4: 512 << 10, 8: 256 << 10}
"""By the number of ranks: up to so many bytes every rank reads all messages whole."""


class GroupMemory(NamedTuple):
    """The memory of a group in this process: the address of each member's, by position."""

    addresses: Sequence[int]

    @classmethod
    def of(cls, addresses: Sequence[int], members: Sequence[int], number: int) -> GroupMemory:
        """That of the group `number`, from the addresses of all ranks' memory."""
        return cls([addresses[rank] + number * MEMORY_BYTES for rank in members])


class PeerAllReduce:
    """One AllReduce of a rank's program; for tensors that `takes` says it takes."""

    def __init__(
        self, call: Call, position: int, memory: GroupMemory, device: torch.device
    ) -> None:
        self._operation = _OPERATIONS[call.reduction]
        self._position = position
        self._mine = memory.addresses[position]
        self._n = len(memory.addresses)
        self._table = torch.tensor(memory.addresses, dtype=torch.int64, device=device)

    @staticmethod
    def fits(call: Call) -> bool:
        """Whether such a call is one of these."""
        return call.kind is Kind.ALL_REDUCE and 2 <= call.group.size <= 8

    def takes(self, x: torch.Tensor) -> bool:
        """Whether a tensor is small enough, and of a dtype that the kernels combine."""
        return x.dtype in _WIDE and 0 < x.nbytes <= MOST_BYTES

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Reduce `x` of all members into `out`, both contiguous."""
        width = SPAN_BYTES // x.itemsize
        grid = (-(-x.numel() // width),)
        given = (x.view(-1), out.view(-1), self._mine, self._table, x.numel())
        fixed = (_WIDE[x.dtype], self._operation, self._n, width)
        if self._n not in ONE_SHOT_BYTES or x.nbytes <= ONE_SHOT_BYTES[self._n]:
            one_shot[grid](*given, *fixed)
        else:
            two_shot[grid](*given, self._position, *fixed)
