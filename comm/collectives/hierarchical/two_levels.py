"""Two-level collectives: within each host over shared memory, between the leaders of hosts by gloo.

The scheme is that of MVAPICH and NCCL for hosts with several ranks: reduce within the host,
exchange between leaders, spread within the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from ...collective_call import Call, Kind, RankGroup
from ..parts import Array, as_bytes, expect_parts, split
from ..tracking import CarryOut
from .host_parts import HostParts, Members

OperationOf = Callable[[Call], CarryOut]
"""Gives the operation of a call: within the host, or between leaders."""


class TwoLevelCall:
    """The parts of one call: those of this rank's host, and that of the leaders."""

    def __init__(
        self, call: Call, parts: HostParts, rank: int, within: OperationOf, between: OperationOf
    ) -> None:
        """`rank` is the calling one."""
        self.call = call
        self.parts = parts
        self.position = call.group.ranks.index(rank)
        self.index = parts.host_of(rank)
        self.host = parts.hosts[self.index]
        self.leads = self.host[0] == rank
        self._within = within
        self._between = between

    def on_host(self, kind: Kind, root: int = 0) -> CarryOut | None:
        """A call of `kind` among the host's members; None where this rank is the only one."""
        if len(self.host) == 1:
            return None
        return self._within(_among(self.call, self.host, kind, root))

    def of_leaders(self, kind: Kind, root: int = 0) -> CarryOut | None:
        """A call of `kind` among the leaders; None where this rank is none."""
        if not self.leads:
            return None
        return self._between(_among(self.call, self.parts.leaders, kind, root))


def all_reduce(levels: TwoLevelCall) -> CarryOut:
    """Reduce to each leader, reduce among leaders, and spread: all members get the same bits."""
    reduce, exchange = levels.on_host(Kind.REDUCE), levels.of_leaders(Kind.ALL_REDUCE)
    spread = levels.on_host(Kind.BROADCAST)

    def carry_out(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x,), (out,) = inputs, outputs
        expect_parts(levels.call, x, out, 1)
        if reduce is not None:
            reduce([x], [out if levels.leads else _none_of(x)])
        elif out is not x:
            out[...] = x
        if exchange is not None:
            exchange([out], [out])
        if spread is not None:
            spread([out], [out])

    return carry_out


def reduce_scatter(levels: TwoLevelCall) -> CarryOut:
    """Reduce everything, as gloo does, and keep a part."""
    members = levels.call.group.size
    reduce = all_reduce(levels)

    def carry_out(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x,), (out,) = inputs, outputs
        expect_parts(levels.call, x, out, members)
        whole = np.empty_like(x)
        reduce([x], [whole])
        out[...] = split(whole, members)[levels.position].reshape(out.shape)

    return carry_out


def all_gather(levels: TwoLevelCall) -> CarryOut:
    """Gather at each leader, exchange what hosts have, and spread.

    Leaders of hosts with few members exchange as much as that with most: gloo takes equal parts.
    """
    gather, exchange = levels.on_host(Kind.GATHER), levels.of_leaders(Kind.ALL_GATHER)
    spread = levels.on_host(Kind.BROADCAST)
    hosts, most = levels.parts.hosts, max(map(len, levels.parts.hosts))
    places = [levels.call.group.ranks.index(rank) for host in hosts for rank in host]
    found = [index * most + row for index, host in enumerate(hosts) for row in range(len(host))]

    def carry_out(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x,), (out,) = inputs, outputs
        expect_parts(levels.call, out, x, len(places))
        mine = np.zeros((most, x.nbytes), np.uint8)
        if gather is None:
            mine[0] = as_bytes(x)
        else:
            at_leader = mine[: len(levels.host)] if levels.leads else _none_of(mine)
            gather([as_bytes(x)], [at_leader])
        if exchange is not None:
            rows = np.empty((len(hosts) * most, x.nbytes), np.uint8)
            exchange([mine], [rows])
            split(as_bytes(out), len(places))[places] = rows[found]
        if spread is not None:
            spread([out], [out])

    return carry_out


def broadcast(levels: TwoLevelCall) -> CarryOut:
    """From the root to its host, then from leader to leader, and to the members of their hosts."""
    root = levels.call.group.ranks[levels.call.root]
    source = levels.parts.host_of(root)
    exchange = levels.of_leaders(Kind.BROADCAST, source)
    at_source = source == levels.index
    spread = levels.on_host(Kind.BROADCAST, levels.host.index(root) if at_source else 0)
    steps = (spread, exchange) if at_source else (exchange, spread)
    sends = levels.position == levels.call.root

    def carry_out(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, out in zip(inputs, outputs, strict=True):
            if sends and out is not x:
                out[...] = x
        for step in filter(None, steps):
            step(outputs, outputs)

    return carry_out


TWO_LEVELS: dict[Kind, Callable[[TwoLevelCall], CarryOut]] = {
    Kind.ALL_REDUCE: all_reduce,
    Kind.REDUCE_SCATTER: reduce_scatter,
    Kind.ALL_GATHER: all_gather,
    Kind.BROADCAST: broadcast,
}


def _among(call: Call, members: Members, kind: Kind, root: int) -> Call:
    """A part of `call`, among some of its members."""
    group = RankGroup(call.group.name, members)
    return msgspec.structs.replace(call, kind=kind, group=group, root=root)


def _none_of(x: Array) -> Array:
    """The output of a member that gets none."""
    return np.empty(0, x.dtype)
