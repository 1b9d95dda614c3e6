"""Collectives over torch.distributed: gloo on CPUs, nccl on NVIDIA GPUs, hccl on Ascend.

Data that is only moved goes as bytes. A dtype that a backend cannot reduce (see `_REDUCED`) is
gathered, and each member reduces it in the order of positions. bool is reduced as uint8. Not all
versions of gloo have ReduceScatter: it reduces everything and keeps a part. The traffic is neither
encrypted nor authenticated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from ...collective_call import ONE_WAY, REDUCING, Call, Kind
from ...errors import CollectiveAborted, CollectiveTimeout, RankFailed
from ...job_memory.arena import Cause
from ..backend import Membership
from ..collective_deadline import CollectiveDeadline
from ..parts import REDUCERS, Array, expect_parts, flat, fold
from ..tracking import (
    CarryOut,
    CollectiveTracker,
    PendingCollective,
    TrackedCall,
    TrackedCollectives,
    mismatch,
)
from .flight_recorder import record_collectives, unfinished_collectives
from .nccl_causes import with_cause
from .one_way_call import OneWayCall
from .tensor_collectives import TorchTensorCollectives
from .torch_groups import TorchGroup, find_device, join_world, reduce_operation

_FOR_EVER = timedelta(days=3650)
_GRACE = 0.5
"""Seconds in which a watching thread notes why a peer is gone."""

_COMMON = {"float16", "float32", "int8", "uint8", "int32", "bool"}
_REDUCED = {
    "gloo": _COMMON | {"float64", "int64"},
    "nccl": _COMMON | {"float64", "int64", "bfloat16"},
    "hccl": _COMMON | {"bfloat16"},
}
_FIRST_PAUSE, _LONGEST_PAUSE, _LOOK = 20e-6, 1e-3, 0.02
"""Seconds between looks for absent members, and until a look for ended and late ones."""


class TorchCollectives(TrackedCollectives):
    """One rank's collectives over one backend."""

    failures = (RuntimeError,)

    def __init__(
        self,
        backend: str,
        membership: Membership,
        groups: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        """Make the process groups; all ranks of the job call this together.

        They are those of `groups`, with None of the membership; all ranks pass the same.
        """
        m = membership
        device = find_device(backend, m.rank)
        limit = timedelta(seconds=m.timeout) if m.timeout else _FOR_EVER
        record_collectives()
        join_world(backend, m.rank, m.exchange, limit, m.address)
        all_ranks = tuple(range(m.rank.world_size))
        self.name = backend
        self._groups = {
            members: TorchGroup(
                backend,
                device,
                members,
                dist.new_group(list(members), timeout=limit, backend=backend),
            )
            for members in sorted({*(m.groups if groups is None else groups), all_ranks})
        }
        self.world = self._groups[all_ranks]
        """The process group of all ranks."""

        self._deadline = CollectiveDeadline(m.arena, m.rank, m.timeout)
        tracker = CollectiveTracker(m.arena, m.rank, m.groups, m.pairs, m.local, m.pending)
        super().__init__(m.rank, tracker)
        self.reduced = _REDUCED[backend]
        """The dtypes that the library can reduce, by name."""

        self.tensors = TorchTensorCollectives(self, tracker, m.rank)
        """The same collectives on tensors of the device; see TensorCollectives of backend.py."""

    def group(self, call: Call) -> TorchGroup:
        """See LibraryCollectives.group."""
        return self._groups[call.group.ranks]

    def check(self, pending: PendingCollective | None) -> None:
        """See LibraryCollectives.check."""
        self._deadline.check_abort()
        if pending:
            try:
                self._deadline.check_missing(str(pending), pending)
            except CollectiveTimeout as error:
                raise self._with_recorded(error) from None

    def _with_recorded(self, error: CollectiveTimeout) -> CollectiveTimeout:
        """The error with what torch has recorded of the collectives that wait."""
        recorded = unfinished_collectives(self.name)
        return CollectiveTimeout(f"{error}. torch waits in {recorded}") if recorded else error

    def carry_out(self, call: Call) -> CarryOut:
        """See TrackedCollectives.carry_out."""
        if call.kind in ONE_WAY:
            return OneWayCall(call, self._rank.rank, self.world)
        group = self._groups[call.group.ranks]
        position = call.group.ranks.index(self._rank.rank)
        return (
            _Reducing(call, group, position)
            if call.kind in REDUCING
            else _Moving(call, group, position)
        )

    def before(self, tracked: TrackedCall) -> None:
        """Wait until all have come for the same: gloo ends the whole process if sizes differ."""
        for table in tracked.awaited:
            pause = _FIRST_PAUSE
            looked = time.monotonic()
            while table.absent():
                self._deadline.check_abort()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                if time.monotonic() - looked > _LOOK:
                    self._deadline.check_missing(str(tracked.pending), tracked.pending)
                    looked = time.monotonic()
        found = mismatch(self._rank.rank, tracked.pending)
        if found:
            self._deadline.fail(found[0], Cause.MISMATCH, found[1])

    def explained(self, error: Exception, tracked: TrackedCall) -> RankFailed:
        """The error of the rank to blame: one that is gone, or that does not go on.

        The library has only an error of its connections.
        """
        noted = time.monotonic() + _GRACE
        while time.monotonic() < noted:
            try:
                self.check(tracked.pending)
            except RankFailed as failure:
                return failure
            time.sleep(0.01)
        return CollectiveAborted(
            f"{self._rank}: {self.name} failed in {tracked.pending}, as when another rank ends: "
            f"{with_cause(str(error))}{self._way_round}"
        )

    @property
    def _way_round(self) -> str:
        """The remedy where a library does not work that ranks may have chosen themselves."""
        if self.name == "gloo":
            return ""
        return ". RANKMESH_COLLECTIVES=gloo has tensors go by the host"

    def close(self) -> None:
        """Forget the calls and leave the groups."""
        super().close()
        for group in self._groups.values():
            dist.destroy_process_group(group.group)
        self._groups.clear()


class _Reducing:
    """One AllReduce, Reduce or ReduceScatter of a rank's program."""

    def __init__(self, call: Call, group: TorchGroup, position: int) -> None:
        self._call = call
        self._group = group
        self._position = position

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x,), (out,), call = inputs, outputs, self._call
        scattering, n = call.kind is Kind.REDUCE_SCATTER, len(self._group.members)
        if call.kind is Kind.REDUCE and call.root != self._position:
            out[...] = 0
            self._reduced(x)
            return
        expect_parts(call, x, out, n if scattering else 1)
        if call.kind is Kind.ALL_REDUCE and x.dtype.name in _REDUCED[self._group.backend]:
            if out is not x:
                out[...] = x
            self._reduce(out)
            return
        whole = self._reduced(x)
        out[...] = (
            whole.reshape(n, -1)[self._position] if scattering and x.size else whole
        ).reshape(out.shape)

    def _reduced(self, x: Array) -> Array:
        """The reduction of all members' `x`, flat."""
        if x.dtype.name in _REDUCED[self._group.backend]:
            whole = flat(x).copy()
            self._reduce(whole)
            return whole
        rows = np.empty((len(self._group.members), x.size), x.dtype)
        _gather_all(self._group, x, rows)
        whole = np.empty(x.size, x.dtype)
        fold(REDUCERS[self._call.reduction], list(rows), whole)
        return whole

    def _reduce(self, x: Array) -> None:
        group, tensor = self._group, self._group.tensor(x)
        operation = reduce_operation(self._call.reduction, x.dtype.kind == "b")
        dist.all_reduce(tensor, operation, group.group)
        group.fill(x, tensor)


class _Moving:
    """One collective of a rank's program that moves bytes as they are."""

    def __init__(self, call: Call, group: TorchGroup, position: int) -> None:
        self._call = call
        self._group = group
        self._n = len(group.members)
        self._root = group.members[call.root] if call.kind is not Kind.ALL_TO_ALL else 0
        self._at_root = call.root == position
        self._move = {
            Kind.ALL_GATHER: self._all_gather,
            Kind.GATHER: self._gather,
            Kind.ALL_TO_ALL: self._all_to_all,
            Kind.BROADCAST: self._broadcast,
            Kind.SCATTER: self._scatter,
        }[call.kind]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._move(inputs, outputs)

    def _all_gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], self._n)
        _gather_all(self._group, inputs[0], outputs[0])

    def _gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, out, group = inputs[0], outputs[0], self._group
        if not self._at_root:
            out[...] = 0
            dist.gather(group.bytes(x), dst=self._root, group=group.group)
            return
        expect_parts(self._call, out, x, self._n)
        tensor = group.bytes(out)
        dist.gather(group.bytes(x), self._rows(tensor), self._root, group.group)
        group.fill(out, tensor)

    def _all_to_all(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], 1)
        group = self._group
        source, result = group.bytes(inputs[0]), group.bytes(outputs[0])
        order = torch.tensor(group.in_order, device=group.device)
        sent = source.reshape(self._n, -1)[order].contiguous() if source.numel() else source
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=group.group)
        if source.numel():
            result.view(self._n, -1)[order] = received
        group.fill(outputs[0], result)

    def _broadcast(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, out in zip(inputs, outputs, strict=True):
            if self._at_root and out is not x:
                out[...] = x
            tensor = self._group.bytes(out)
            dist.broadcast(tensor, self._root, self._group.group)
            self._group.fill(out, tensor)

    def _scatter(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out, group, rows = outputs[0], self._group, None
        if self._at_root:
            expect_parts(self._call, inputs[0], out, self._n)
            rows = self._rows(group.bytes(inputs[0]))
        tensor = group.bytes(out)
        dist.scatter(tensor, rows, self._root, group.group)
        group.fill(out, tensor)

    def _rows(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """The members' parts, in the group's own order."""
        rows = whole.view(self._n, whole.numel() // self._n)
        return [rows[position] for position in self._group.in_order]


def _gather_all(group: TorchGroup, x: Array, out: Array) -> None:
    """Every member's `x` as bytes, one after the other in the order of positions."""
    tensor = group.bytes(out)
    parts = tensor.view(len(group.members), x.nbytes)
    dist.all_gather([parts[position] for position in group.in_order], group.bytes(x), group.group)
    group.fill(out, tensor)
