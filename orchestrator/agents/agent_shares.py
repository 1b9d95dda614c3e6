"""Agent shares: say which agents get the ranks of a replica, by room or by its rank table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...comm.errors import UsageError
from ...comm.job.server_hosts import JoinedHost, devices_by_host
from ...comm.text import counted
from ...rank_tables.table import RankTable
from ..replica.replica_spec import ReplicaSpec
from ..replica.supervised_ranks import NoPlace
from .rank_spread import AgentRoom, on_one_host_or_open, spread
from .remote_agent import RemoteAgent


class AgentShare(NamedTuple):
    """Ranks for an agent, each with its device there; None: that of its place."""

    agent: RemoteAgent
    devices: Mapping[int, int | None]


def agent_shares(
    spec: ReplicaSpec, agents: Sequence[RemoteAgent], opens: Callable[[str], bool]
) -> list[AgentShare]:
    """The agents of a replica; none where there is no room.

    `opens` tells whether ranks at an address may exchange tensors with other hosts in clear. Raises
    NoPlace where the rank table wants what cannot be had now.
    """
    rooms = [AgentRoom(one.free, one.address, opens(one.address)) for one in agents]
    if spec.table is not None:
        return _of_table(spec, spec.table, agents, rooms)
    shares = spread(len(spec.ranks), rooms)
    ends = itertools.accumulate(count for _, count in shares)
    return [
        AgentShare(agents[index], dict.fromkeys(range(end - count, end)))
        for (index, count), end in zip(shares, ends, strict=True)
    ]


def lack_of_room(size: int, agents: Sequence[RemoteAgent], opens: Callable[[str], bool]) -> str:
    """Why no agent, and not several, may have a replica of so many ranks, and what there is."""
    told = ", ".join(f"{one} has room for {one.free}" for one in agents)
    closed = {one.address for one in agents if not opens(one.address)}
    together = (
        ". Together they have, but collectives between hosts are not encrypted: name the network "
        f"of {', '.join(sorted(closed))} in trusted_networks"
        if closed and sum(one.free for one in agents) >= size
        else ""
    )
    return (
        f"a replica of {counted(size, 'rank')} needs an agent with room for them: "
        f"{told or 'no agent is there'}{together}"
    )


def _of_table(
    spec: ReplicaSpec,
    table: RankTable,
    agents: Sequence[RemoteAgent],
    rooms: Sequence[AgentRoom],
) -> list[AgentShare]:
    size = len(spec.ranks)
    hosts = [JoinedHost(one.joined.name, (one.joined.host, one.address)) for one in agents]
    try:
        found = devices_by_host(table, range(spec.index * size, (spec.index + 1) * size), hosts)
    except UsageError as error:
        raise NoPlace(str(error)) from error
    chosen = [hosts.index(host) for host, _ in found]
    for index, (_, devices) in zip(chosen, found, strict=True):
        if rooms[index].free < len(devices):
            raise NoPlace(
                f"the rank table gives {agents[index]} {counted(len(devices), 'rank')} of replica "
                f"{spec.index}, and it has room for {rooms[index].free}"
            )
    if not on_one_host_or_open([rooms[index] for index in chosen]):
        addresses = ", ".join(rooms[index].address for index in chosen)
        raise NoPlace(
            f"the rank table gives replica {spec.index} several hosts ({addresses}), whose "
            "collectives are not encrypted: name their network in trusted_networks"
        )
    return [
        AgentShare(agents[index], devices)
        for index, (_, devices) in zip(chosen, found, strict=True)
    ]
