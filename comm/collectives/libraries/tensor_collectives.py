"""Collectives on tensors: carried out where the tensors are, in the order of the device's work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist

from ...collective_call import Call, Kind, Reduction
from ...errors import CollectiveMismatch, RankFailed
from ...job.rank import Rank
from ..backend import ReceivedForm
from ..signed_tensor import SignedTensor
from ..tracking import (
    CollectiveTracker,
    PendingCollective,
    TrackedCall,
    TrackedCollectives,
    mismatch,
)
from .one_way_call import OneWayTensors
from .torch_groups import TorchGroup, reduce_operation

_KINDS = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.BROADCAST)
_TRANSFERS = (Kind.SEND, Kind.RECEIVE)
_OF_GLOO = (Kind.ALL_REDUCE, Kind.BROADCAST)
"""gloo takes tensors of a GPU for these alone."""
_FOLDS: dict[Reduction, Callable[..., torch.Tensor]] = {
    Reduction.SUM: torch.add,
    Reduction.MAX: torch.maximum,
    Reduction.MIN: torch.minimum,
    Reduction.PROD: torch.mul,
}
Tensors = Sequence[torch.Tensor]


class EnteredCall(NamedTuple):
    """A collective of a captured run, and the forms of its tensors."""

    tracked: TrackedCall
    inputs: Sequence[SignedTensor]
    outputs: Sequence[SignedTensor]


class LibraryCollectives(Protocol):
    """The collectives of a library on arrays, whose groups and errors those on tensors share."""

    name: str

    @property
    def world(self) -> TorchGroup:
        """The process group of all ranks."""

    @property
    def reduced(self) -> Collection[str]:
        """The dtypes that the library can reduce, by name."""

    def group(self, call: Call) -> TorchGroup:
        """The process group of a call."""

    def check(self, pending: PendingCollective | None) -> None:
        """Raise where a wait for other ranks, in `pending`, would have no end."""

    def before(self, tracked: TrackedCall) -> None:
        """See TrackedCollectives.before."""

    def explained(self, error: Exception, tracked: TrackedCall) -> RankFailed:
        """See TrackedCollectives.explained."""


class TorchTensorCollectives(TrackedCollectives):
    """See TensorCollectives: the collectives of `owner`, on tensors of its device.

    A call that is not recorded is noted like one on arrays. A call of a captured run is noted once
    the run is started, with all others of that run.
    """

    failures = (RuntimeError,)
    repeatable = False

    def __init__(self, owner: LibraryCollectives, tracker: CollectiveTracker, rank: Rank) -> None:
        super().__init__(rank, tracker)
        self._owner = owner
        self.recordable = owner.name != "gloo"
        """Whether a device can capture the calls: those of gloo go through the host."""

        self._entered: list[EnteredCall] = []

    def takes(self, call: Call) -> bool:
        """Whether a call can run on tensors."""
        if call.kind in _TRANSFERS:
            members, peers = call.group.ranks, (*call.sends_to, *call.receives_from)
            return self.recordable and all(members[one] != self._rank.rank for one in peers)
        return call.kind in (_KINDS if self.recordable else _OF_GLOO)

    def enqueue(
        self, call: Call, inputs: Tensors, recording: bool, received: Sequence[ReceivedForm] = ()
    ) -> list[torch.Tensor]:
        """Put a call behind the work so far; its results. Raises as `Collectives.run`."""
        given = [one.contiguous() for one in inputs]
        device = self._owner.world.device
        outputs = [
            torch.empty(shape, dtype=getattr(torch, dtype.name), device=device)
            for dtype, shape in received
        ]
        if call.kind not in _TRANSFERS:
            outputs = [_room(call, one) for one in given]
        if not recording:
            self.run(call, given, outputs)
            return outputs
        tracked, carry_out = self._prepared.get(id(call)) or self._prepare(call)
        carry_out(given, outputs)
        forms = [[SignedTensor.of(one) for one in tensors] for tensors in (given, outputs)]
        self._entered.append(EnteredCall(tracked, *forms))
        return outputs

    def recorded(self) -> Sequence[EnteredCall]:
        """The calls that were recorded since the last time that this was asked."""
        found, self._entered = self._entered, []
        return found

    @contextmanager
    def following(self, entered: Sequence[EnteredCall]) -> Iterator[Callable[[], None]]:
        """While the device runs these calls, which were recorded; gives the check for a wait.

        The check raises CollectiveAborted, CollectiveTimeout or CollectiveMismatch.
        """
        for one in entered:
            self._tracker.enter(one.tracked, one.inputs, one.outputs)
        waits = [one.tracked for one in entered if one.tracked.pending.tables]
        try:
            yield lambda: self._owner.check(waits[-1].pending if waits else None)
        finally:
            for one in entered:
                self._tracker.stop_waiting(one.tracked)
        for one in entered:
            self._tracker.leave(one.tracked)
        found = mismatch(self._rank.rank, waits[-1].pending) if waits else None
        if found:
            raise CollectiveMismatch(found[1])

    def described(self, arrays: Sequence[Any]) -> Sequence[SignedTensor]:
        """See TrackedCollectives.described."""
        return [SignedTensor.of(one) for one in arrays]

    def before(self, tracked: TrackedCall) -> None:
        """See TrackedCollectives.before."""
        self._owner.before(tracked)

    def explained(self, error: Exception, tracked: TrackedCall) -> RankFailed:
        """See TrackedCollectives.explained."""
        return self._owner.explained(error, tracked)

    def carry_out(self, call: Call) -> Any:
        """See TrackedCollectives.carry_out."""
        if call.kind in _TRANSFERS:
            return OneWayTensors(call, self._owner.world)
        return _TensorCall(call, self._owner.group(call), self._rank.rank, self._owner.reduced)


class _TensorCall:
    """One collective of a rank's program, on tensors."""

    def __init__(self, call: Call, group: TorchGroup, rank: int, reduced: Collection[str]) -> None:
        """`reduced` are the dtypes that the library can reduce."""
        self._call = call
        self._group = group
        self._reduced_here = reduced
        self._n = len(group.members)
        self._position = group.members.index(rank)

    def __call__(self, inputs: Tensors, outputs: Tensors) -> None:
        kind = self._call.kind
        if kind is Kind.BROADCAST:
            for x, out in zip(inputs, outputs, strict=True):
                self._broadcast(x, out)
        elif kind is Kind.ALL_GATHER:
            self._gather(inputs[0], outputs[0])
        elif kind is Kind.ALL_TO_ALL:
            self._all_to_all(inputs[0], outputs[0])
        elif kind is Kind.ALL_REDUCE:
            outputs[0].copy_(self._reduced(inputs[0]))
        else:
            whole = self._reduced(inputs[0]).view(self._n, -1)
            outputs[0].view(-1).copy_(whole[self._position])

    def _reduced(self, x: torch.Tensor) -> torch.Tensor:
        name, reduction = str(x.dtype).removeprefix("torch."), self._call.reduction
        if name in self._reduced_here:
            whole = x.view(torch.uint8).clone() if x.dtype == torch.bool else x.clone()
            operation = reduce_operation(reduction, x.dtype == torch.bool)
            dist.all_reduce(whole, operation, self._group.group)
            return whole.view(x.dtype)
        rows = x.new_empty((self._n, *x.shape))
        self._gather(x, rows)
        whole = rows[0]
        for row in rows[1:]:
            whole = _FOLDS[reduction](whole, row)
        return whole

    def _gather(self, x: torch.Tensor, out: torch.Tensor) -> None:
        parts = _bytes(out).view(self._n, -1)
        rows = [parts[position] for position in self._group.in_order]
        dist.all_gather(rows, _bytes(x), self._group.group)

    def _all_to_all(self, x: torch.Tensor, out: torch.Tensor) -> None:
        order = self._group.in_order
        sent = torch.stack([_bytes(x).view(self._n, -1)[position] for position in order])
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self._group.group)
        parts = _bytes(out).view(self._n, -1)
        for row, position in zip(received, order, strict=True):
            parts[position].copy_(row)

    def _broadcast(self, x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x)
        source = self._group.members[self._call.root]
        dist.broadcast(_bytes(out), source, self._group.group)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor. Strides of an empty one may be 0, as numpy makes them."""
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _room(call: Call, x: torch.Tensor) -> torch.Tensor:
    """A tensor for the result of a call. Raises ValueError where `x` cannot be divided."""
    n = call.group.size
    if call.kind is Kind.ALL_GATHER:
        if not x.dim():
            raise ValueError("AllGather needs a first axis, got a scalar")
        return x.new_empty((n * x.shape[0], *x.shape[1:]))
    if call.kind is Kind.REDUCE_SCATTER:
        if not x.dim() or x.shape[0] % n:
            raise ValueError(f"ReduceScatter of {n} ranks cannot divide {tuple(x.shape)}")
        return x.new_empty((x.shape[0] // n, *x.shape[1:]))
    return torch.empty_like(x, memory_format=torch.contiguous_format)
