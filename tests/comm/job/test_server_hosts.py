"""Servers of rank tables as hosts that joined: by name or address, each exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.server_hosts import JoinedHost, devices_by_host, hosts_of_servers
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure
ROOT = Path(__file__).parents[3]
TWO = RankTable(
    (
        Server("192.0.2.1", (Device(0, 0),)),
        Server("192.0.2.2", (Device(1, 0), Device(2, 1)), "198.51.100.2"),
    )
)


def hosts(*named: tuple[str, str]) -> list[JoinedHost]:
    return [JoinedHost(name, (address,)) for name, address in named]


def test_servers_are_hosts_by_name_or_address() -> None:
    joined = hosts(("spare", "192.0.2.9"), ("b", "198.51.100.2"), ("192.0.2.1", "203.0.113.1"))
    _, b, first = joined
    assert devices_by_host(TWO, range(3), joined) == [(first, {0: 0}), (b, {1: 0, 2: 1})]
    assert devices_by_host(TWO, range(1, 3), joined) == [(b, {0: 0, 1: 1})]


def test_agents_of_one_address_have_the_names_of_servers() -> None:
    joined = hosts(("192.0.2.2", "192.0.2.1"), ("192.0.2.1", "192.0.2.1"))
    assert hosts_of_servers(TWO.servers, joined) == joined[::-1]


def test_a_table_of_one_server_is_the_only_host() -> None:
    (host,) = hosts(("a", "203.0.113.1"))
    assert hosts_of_servers([Server("192.0.2.77", (Device(0, 0),))], [host]) == [host]


@pytest.mark.parametrize("name", ["hccl_2s_16p.json", "superpod_v1.2_2x2.json"])
def test_tables_of_the_usual_tools(name: str) -> None:
    found = RankTable.read(ROOT / "rank_tables" / name)
    joined = hosts(*((one.server_id, f"10.0.0.{i}") for i, one in enumerate(found.servers)))
    devices = devices_by_host(found, range(found.world_size), joined[::-1])
    assert {host.name: tuple(by_rank) for host, by_rank in devices} == {
        one.server_id: one.ranks for one in found.servers
    }


@pytest.mark.parametrize(
    ("joined", "text"),
    [
        ((), "servers without a host: 192.0.2.1, 192.0.2.2; the hosts are none"),
        (
            (("a", "192.0.2.1"), ("b", "192.0.2.7")),
            r"without a host: 192.0.2.2; the hosts are a \(192.0.2.1\); b \(192.0.2.7\)",
        ),
        (
            (("a", "192.0.2.1"), ("b", "192.0.2.2"), ("c", "198.51.100.2")),
            r"server 192.0.2.2 of the rank table is 2 hosts: b \(192.0.2.2\); c \(198",
        ),
        (
            (("192.0.2.1", "192.0.2.2"),),
            r"192.0.2.1 \(192.0.2.2\) is 2 servers of the rank table: 192.0.2.1, 192.0.2.2",
        ),
    ],
)
def test_hosts_that_are_not_the_servers(joined: tuple[tuple[str, str], ...], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        hosts_of_servers(TWO.servers, hosts(*joined))
