"""Host parts of groups: tell which members of a group are on which host."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...decoding import decode_payloads
from ...errors import RankFailed

Members = tuple[int, ...]


class HostParts(msgspec.Struct, frozen=True):
    """The members of a group, for each of its hosts in the order of its first member.

    The first member of a host is its leader: it exchanges with the leaders of the other hosts.
    """

    hosts: tuple[Members, ...]

    @property
    def leaders(self) -> Members:
        """The leader of each host."""
        return tuple(host[0] for host in self.hosts)

    @property
    def on_one_host(self) -> bool:
        """Whether all members are on one host."""
        return len(self.hosts) == 1

    @property
    def worthwhile(self) -> bool:
        """Whether there are several hosts, and on one of them several members."""
        return not self.on_one_host and any(len(host) > 1 for host in self.hosts)

    def host_of(self, rank: int) -> int:
        """The position of a member's host."""
        return next(index for index, host in enumerate(self.hosts) if rank in host)


def host_parts(group: Members, hosts: tuple[Members, ...]) -> HostParts:
    """The parts of a group, where `hosts` has the ranks of each host."""
    parts = [tuple(rank for rank in group if rank in host) for host in hosts]
    return HostParts(tuple(sorted(filter(None, parts), key=lambda part: group.index(part[0]))))


def meet_hosts(
    exchange: Callable[[bytes], list[bytes]], local: frozenset[int]
) -> tuple[Members, ...]:
    """The ranks of each host; all ranks call this together, each with those of its own host.

    Raises RankFailed where what the ranks say does not fit together.
    """
    said = exchange(msgspec.msgpack.encode(sorted(local)))
    parts = decode_payloads(said, Members)
    hosts = tuple(sorted(set(parts)))
    if sorted(rank for host in hosts for rank in host) != list(range(len(parts))):
        raise RankFailed(
            f"the ranks do not agree on which of them share a host: they say {parts!s:.300}. Start "
            "all of them anew, with one launcher on each host."
        )
    return hosts
