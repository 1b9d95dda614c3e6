"""Hosts of servers: the host that joined for each server of a rank table, and its ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...rank_tables.server import Server
from ...rank_tables.table import RankTable
from ..errors import UsageError
from ..text import counted


class JoinedHost(msgspec.Struct, frozen=True):
    """A host that takes ranks: its name, and the addresses and host names that are its own."""

    name: str
    addresses: tuple[str, ...]


def hosts_of_servers(servers: Sequence[Server], hosts: Sequence[JoinedHost]) -> list[JoinedHost]:
    """The host that is each of some servers of a rank table, in their order.

    A host is the server whose `server_id` or `host_ip` is its name or one of its addresses. The
    only host is the only server. Raises UsageError, which names the `server_id`, where a server has
    not exactly one host, or a host is several servers.
    """
    if len(servers) == len(hosts) == 1:
        return list(hosts)
    found = {server.server_id: _hosts_of(server, hosts) for server in servers}
    _require_one_each(found, hosts)
    ids_of: dict[str, list[str]] = {}
    for server_id, (host,) in found.items():
        ids_of.setdefault(_described(host), []).append(server_id)
    for described, ids in ids_of.items():
        if len(ids) > 1:
            raise UsageError(
                f"the host {described} is {counted(len(ids), 'server')} of the rank table: "
                f"{', '.join(ids)}. Correct server_id or host_ip."
            )
    return [host for (host,) in found.values()]


def devices_by_host(
    table: RankTable, ranks: range, hosts: Sequence[JoinedHost]
) -> list[tuple[JoinedHost, dict[int, int]]]:
    """The hosts of some ranks of a table, and the device of each of them, by its place in `ranks`.

    Raises as hosts_of_servers.
    """
    servers = [server for server in table.servers if any(rank in ranks for rank in server.ranks)]
    return [
        (
            host,
            {
                ranks.index(rank): table.device_of(rank).device_id
                for rank in server.ranks
                if rank in ranks
            },
        )
        for server, host in zip(servers, hosts_of_servers(servers, hosts), strict=True)
    ]


def _hosts_of(server: Server, hosts: Sequence[JoinedHost]) -> list[JoinedHost]:
    """The hosts that a server may be: those of its name, else those at its addresses."""
    named = [host for host in hosts if host.name in (server.server_id, server.host_ip)]
    ids = {server.server_id, server.host_ip}
    return named or [host for host in hosts if ids.intersection(host.addresses)]


def _require_one_each(
    found: Mapping[str, Sequence[JoinedHost]], hosts: Sequence[JoinedHost]
) -> None:
    """Raise UsageError where a server has not exactly one host."""
    missing = [server_id for server_id, are in found.items() if not are]
    if missing:
        raise UsageError(
            f"the rank table has servers without a host: {', '.join(missing)}; the hosts are "
            f"{'; '.join(map(_described, hosts)) or 'none'}. Start an agent on each server, with "
            "its server_id as its name, or correct server_id or host_ip."
        )
    for server_id, are in found.items():
        if len(are) > 1:
            raise UsageError(
                f"server {server_id} of the rank table is {counted(len(are), 'host')}: "
                f"{'; '.join(map(_described, are))}. Give each host a name of its own."
            )


def _described(host: JoinedHost) -> str:
    return f"{host.name} ({', '.join(host.addresses)})" if host.addresses else host.name
