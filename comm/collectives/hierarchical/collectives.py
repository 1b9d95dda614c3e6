"""Collectives of several hosts: within a host over its arena, between hosts by gloo.

Most links between hosts are slower than the memory of a host by far, and gloo takes every rank for
a host of its own. So one rank of each host, the leader, exchanges with the other leaders, and the
ranks of a host share what that takes and gives. Calls that stay on one host need no network.
"""

from __future__ import annotations

from ...collective_call import ONE_WAY, Call
from ..backend import Membership
from ..libraries.torch_distributed import TorchCollectives
from ..tracking import CarryOut, TrackedCall
from .host_memory import HostMemory
from .host_parts import host_parts, meet_hosts
from .messages import SplitMessages
from .two_levels import TWO_LEVELS, TwoLevelCall


class HierarchicalCollectives(TorchCollectives):
    """The collectives of one rank; see `Collectives.run`.

    AllReduce, ReduceScatter, AllGather and Broadcast go by leaders where a host has several
    members. Other kinds that reach beyond a host are gloo's alone.
    """

    def __init__(self, membership: Membership) -> None:
        """Learn which ranks share a host, and join; all ranks of the job call this together."""
        m = membership
        hosts = meet_hosts(m.exchange, m.local)
        self._parts = {group: host_parts(group, hosts) for group in sorted(set(m.groups))}
        wide = {group: parts for group, parts in self._parts.items() if not parts.on_one_host}
        leaders = {parts.leaders for parts in wide.values() if parts.worthwhile}
        super().__init__("gloo", m, sorted({*wide, *leaders}))
        self.name = "hierarchical"
        self._memory = HostMemory(
            m,
            [group for group in self._parts if m.local.issuperset(group)],
            [host for parts in wide.values() for host in parts.hosts if m.local.issuperset(host)],
            [pair for pair in m.pairs if m.local.issuperset(pair)],
        )
        self._local = m.local
        self._by_gloo: set[int] = set()
        """The identities of calls that gloo alone carries out; they live as long as this."""

    def carry_out(self, call: Call) -> CarryOut:
        """See TrackedCollectives.carry_out."""
        if call.kind in ONE_WAY:
            return SplitMessages(call, self._local, self._memory.transfer, super().carry_out)
        parts = self._parts[call.group.ranks]
        if parts.on_one_host:
            return self._memory.group(call)
        if parts.worthwhile and call.kind in TWO_LEVELS:
            levels = TwoLevelCall(
                call, parts, self._rank.rank, self._memory.part, super().carry_out
            )
            return TWO_LEVELS[call.kind](levels)
        self._by_gloo.add(id(call))
        return super().carry_out(call)

    def before(self, tracked: TrackedCall) -> None:
        """Wait as gloo needs it, where gloo alone carries out a call of a group."""
        if id(tracked.call) in self._by_gloo:
            super().before(tracked)

    def close(self) -> None:
        """See TorchCollectives.close."""
        super().close()
        self._memory.close()
