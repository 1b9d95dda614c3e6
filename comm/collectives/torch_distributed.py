"""Collectives over torch.distributed: `gloo` on the CPU, `nccl` on NVIDIA GPUs, `hccl` on Ascend (torch_npu).

Whatever is only moved goes as bytes. What a backend cannot reduce (`_REDUCED` lists what it can) is gathered and
reduced by every member in the order of positions. bool is reduced as uint8. gloo has no ReduceScatter of its own in
all versions: it reduces everything and keeps a part. The traffic is neither encrypted nor authenticated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..arena import Arena, Cause
from ..errors import CollectiveAborted, RankFailed
from ..rank import Rank
from .base import ONE_WAY, REDUCING, Array, Call, Kind, Reduction
from .parts import REDUCERS, expect_parts, flat, fold
from .patience import Patience
from .register import Page, Register, mismatch
from .registered import CarryOut, RegisteredCollectives
from .torch_team import Team, find_device
from .torch_world import meet_all

_FOR_EVER = timedelta(days=3650)
_GRACE = 0.5
"""Seconds until whoever watches the ranks has noted why a peer is gone."""

_COMMON = {"float16", "float32", "int8", "uint8", "int32", "bool"}
_REDUCED = {
    "gloo": _COMMON | {"float64", "int64"},
    "nccl": _COMMON | {"float64", "int64", "bfloat16"},
    "hccl": _COMMON | {"bfloat16"},
}
_FIRST_PAUSE, _LONGEST_PAUSE, _LOOK = 20e-6, 1e-3, 0.02
"""Seconds between looks for who is absent, and until a look at who has ended or is late."""

_OPERATIONS = {
    Reduction.SUM: dist.ReduceOp.SUM, Reduction.MAX: dist.ReduceOp.MAX, Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.PROD: dist.ReduceOp.PRODUCT}
_LOGICAL = {**_OPERATIONS, Reduction.SUM: dist.ReduceOp.MAX, Reduction.PROD: dist.ReduceOp.MIN}


class TorchCollectives(RegisteredCollectives):
    """One rank's collectives over one backend."""

    failures = (RuntimeError,)

    def __init__(
        self, backend: str, rank: Rank, register: Register, members: dict[tuple[int, ...], Team], arena: Arena,
        timeout: float,
    ) -> None:
        super().__init__(rank, register)
        self.name = backend
        self._teams, self._arena, self._patience = members, arena, Patience(arena, rank, timeout)
        self._world = members[tuple(range(rank.world_size))]

    @classmethod
    def join(
        cls, backend: str, rank: Rank, exchange: Callable[[bytes], list[bytes]], register: Register, arena: Arena,
        groups: Sequence[tuple[int, ...]], timeout: float, address: str = "",
    ) -> TorchCollectives:
        """Make the process groups; all ranks pass the same groups. `exchange` is a meeting's, `address` rank 0's."""
        device = find_device(backend, rank)
        limit = timedelta(seconds=timeout) if timeout else _FOR_EVER
        meet_all(backend, rank, exchange, limit, address)
        teams = {
            members: Team(backend, device, members, dist.new_group(list(members), timeout=limit, backend=backend))
            for members in sorted({*groups, tuple(range(rank.world_size))})}
        return cls(backend, rank, register, teams, arena, timeout)

    def carry_out(self, call: Call) -> CarryOut:
        """See RegisteredCollectives.carry_out."""
        if call.kind in ONE_WAY:
            return _OneWay(call, self._rank.rank, self._world)
        team = self._teams[call.group.ranks]
        position = call.group.ranks.index(self._rank.rank)
        return _Reducing(call, team, position) if call.kind in REDUCING else _Moving(call, team, position)

    def before(self, page: Page) -> None:
        """Begin when all have come for the same: gloo ends the whole process where sizes differ."""
        for one in page.awaited:
            pause = _FIRST_PAUSE
            looked = time.monotonic()
            while one.absent():
                self._patience.check_abort()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                if time.monotonic() - looked > _LOOK:
                    self._patience.check_missing(str(page.roll), page.roll)
                    looked = time.monotonic()
        found = mismatch(self._rank.rank, page.roll)
        if found:
            self._patience.fail(found[0], Cause.MISMATCH, found[1])

    def explained(self, error: Exception, page: Page) -> RankFailed:
        """A peer that is gone, or one that does not go on: both are errors of the library's connections."""
        noted = time.monotonic() + _GRACE
        while time.monotonic() < noted:
            try:
                self._patience.check_abort()
                self._patience.check_missing(str(page.roll), page.roll)
            except RankFailed as failure:
                return failure
            time.sleep(0.01)
        return CollectiveAborted(f"{self._rank}: {self.name} failed in {page.roll}, as when another rank ends: {error}")

    def close(self) -> None:
        """Forget the calls and leave the groups."""
        super().close()
        for team in self._teams.values():
            dist.destroy_process_group(team.group)
        self._teams.clear()


class _Reducing:
    """One AllReduce, Reduce or ReduceScatter of a rank's program."""

    def __init__(self, call: Call, team: Team, position: int) -> None:
        self._call, self._team, self._position = call, team, position

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x,), (out,), call = inputs, outputs, self._call
        scattering, n = call.kind is Kind.REDUCE_SCATTER, len(self._team.members)
        if call.kind is Kind.REDUCE and call.root != self._position:
            out[...] = 0
            self._reduced(x)
            return
        expect_parts(call, x, out, n if scattering else 1)
        if call.kind is Kind.ALL_REDUCE and x.dtype.name in _REDUCED[self._team.backend]:
            if out is not x:
                out[...] = x
            self._reduce(out)
            return
        whole = self._reduced(x)
        out[...] = (whole.reshape(n, -1)[self._position] if scattering and x.size else whole).reshape(out.shape)

    def _reduced(self, x: Array) -> Array:
        """The reduction of all members' `x`, flat."""
        if x.dtype.name in _REDUCED[self._team.backend]:
            whole = flat(x).copy()
            self._reduce(whole)
            return whole
        rows = np.empty((len(self._team.members), x.size), x.dtype)
        _gather_all(self._team, x, rows)
        whole = np.empty(x.size, x.dtype)
        fold(REDUCERS[self._call.reduction], list(rows), whole)
        return whole

    def _reduce(self, x: Array) -> None:
        team, tensor = self._team, self._team.tensor(x)
        operations = _LOGICAL if x.dtype.kind == "b" else _OPERATIONS
        dist.all_reduce(tensor, operations[self._call.reduction], team.group)
        team.fill(x, tensor)


class _Moving:
    """One collective of a rank's program that moves bytes as they are."""

    def __init__(self, call: Call, team: Team, position: int) -> None:
        self._call, self._team, self._n = call, team, len(team.members)
        self._root = team.members[call.root] if call.kind is not Kind.ALL_TO_ALL else 0
        self._at_root = call.root == position
        self._move = {
            Kind.ALL_GATHER: self._all_gather, Kind.GATHER: self._gather, Kind.ALL_TO_ALL: self._all_to_all,
            Kind.BROADCAST: self._broadcast, Kind.SCATTER: self._scatter}[call.kind]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._move(inputs, outputs)

    def _all_gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], self._n)
        _gather_all(self._team, inputs[0], outputs[0])

    def _gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, out, team = inputs[0], outputs[0], self._team
        if not self._at_root:
            out[...] = 0
            dist.gather(team.bytes(x), dst=self._root, group=team.group)
            return
        expect_parts(self._call, out, x, self._n)
        tensor = team.bytes(out)
        dist.gather(team.bytes(x), self._rows(tensor), self._root, team.group)
        team.fill(out, tensor)

    def _all_to_all(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], 1)
        team, source, result = self._team, self._team.bytes(inputs[0]), self._team.bytes(outputs[0])
        order = torch.tensor(team.in_order, device=team.device)
        sent = source.reshape(self._n, -1)[order].contiguous() if source.numel() else source
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=team.group)
        if source.numel():
            result.view(self._n, -1)[order] = received
        team.fill(outputs[0], result)

    def _broadcast(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, out in zip(inputs, outputs, strict=True):
            if self._at_root and out is not x:
                out[...] = x
            tensor = self._team.bytes(out)
            dist.broadcast(tensor, self._root, self._team.group)
            self._team.fill(out, tensor)

    def _scatter(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out, team, rows = outputs[0], self._team, None
        if self._at_root:
            expect_parts(self._call, inputs[0], out, self._n)
            rows = self._rows(team.bytes(inputs[0]))
        tensor = team.bytes(out)
        dist.scatter(tensor, rows, self._root, team.group)
        team.fill(out, tensor)

    def _rows(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """The members' parts, in the group's own order."""
        rows = whole.view(self._n, whole.numel() // self._n)
        return [rows[position] for position in self._team.in_order]


class _OneWay:
    """One Send, Receive or NeighborExchange of a rank's program."""

    def __init__(self, call: Call, rank: int, world: Team) -> None:
        self._tag, self._rank, self._world = call.tag, rank, world
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
        operations += [self._operation(dist.isend, self._world.bytes(x), to)
                       for to, x in zip(self._to, inputs, strict=True) if to != self._rank]
        for request in dist.batch_isend_irecv(operations) if operations else []:
            request.wait()
        for out, tensor in received:
            self._world.fill(out, tensor)

    def _operation(self, act: Callable[..., Any], tensor: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(act, tensor, peer, self._world.group, self._tag)


def _gather_all(team: Team, x: Array, out: Array) -> None:
    """Every member's `x` as bytes, one after the other in the order of positions."""
    tensor = team.bytes(out)
    parts = tensor.view(len(team.members), x.nbytes)
    dist.all_gather([parts[position] for position in team.in_order], team.bytes(x), team.group)
    team.fill(out, tensor)
