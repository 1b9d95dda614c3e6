"""Spanning rendezvous: ranks of an orchestrator that are on several hosts.

The processes that supervise them relay the exchanges, as on one host. Tensors go between the hosts
by torch.distributed, whose connections are neither encrypted nor authenticated.
"""

from __future__ import annotations

from ..collectives.backend import Collectives
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.host_peers import meet_host_peers
from ..transport.channel import Channel
from .between_hosts import join_hosts, require_torch
from .rendezvous import ChannelRendezvous, Groups, Pairs


class SpanningRendezvous(ChannelRendezvous):
    """See ChannelRendezvous. The ranks of one host share an arena."""

    def __init__(
        self, rank: Rank, channel: Channel, arena: Arena, timeout: float, relay: str, address: str
    ) -> None:
        """`address` is that of rank 0's host. Raises UsageError without torch."""
        require_torch()
        super().__init__(rank, channel, arena, timeout, relay)
        self._address = address

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        local = frozenset(meet_host_peers(self.exchange, self._arena))
        membership = self._membership(groups, pairs, local, self._address)
        return join_hosts(membership, self.choice.name)
