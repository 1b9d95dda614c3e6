"""Where the ranks of several hosts meet, from a rank table or a launcher's variables."""

from __future__ import annotations

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.identity import LaunchIdentity, detect
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.address import (
    PORT,
    RendezvousAddress,
    address_from,
    address_of_table,
)
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "seven",
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "192.0.2.9",
    "MASTER_PORT": "29500",
}
SLURM = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_NODEID": "1",
}


def table(first: str, host_ip: str | None = None) -> RankTable:
    return RankTable(
        (Server("192.0.2.2", (Device(1, 0),)), Server(first, (Device(0, 0),), host_ip))
    )


def test_a_table_s_ranks_meet_at_rank_0() -> None:
    place = address_of_table(table("192.0.2.1"), {})
    assert (place.host, place.port) == ("192.0.2.1", PORT)
    assert address_of_table(table("192.0.2.1", "198.51.100.1"), {}).host == "198.51.100.1"
    assert place.job == address_of_table(table("192.0.2.1"), {"RANKMESH_PORT": "5"}).job
    assert place.job != address_of_table(table("192.0.2.3"), {}).job


def test_the_user_s_address_and_port_come_first() -> None:
    variables = {"RANKMESH_ADDRESS": "203.0.113.5", "RANKMESH_PORT": "5000"}
    assert str(address_of_table(table("192.0.2.1"), variables)) == "203.0.113.5:5000"
    assert str(address_from(detect(TORCHRUN), {**TORCHRUN, **variables})) == "203.0.113.5:5000"


def test_a_launcher_tells_its_ranks() -> None:
    place = RendezvousAddress("192.0.2.1", 5, "a job", ("192.0.2.1", "other"))
    assert address_from(LaunchIdentity(Rank(0, 2, 0, 1, "here", 0), ()), place.variables()) == place


def test_torchrun_s_ranks_meet_at_its_master() -> None:
    place = address_from(detect(TORCHRUN), TORCHRUN)
    assert str(place) == f"192.0.2.9:{PORT}" and "seven" in place.job


@pytest.mark.parametrize(
    "nodes, first",
    [
        ("node1,node2", "node1"),
        ("node[07-09,12],other3", "node07"),
        ("rack1-node[3,5-6]-ib", "rack1-node3-ib"),
        ("n", "n"),
    ],
)
def test_slurm_s_ranks_meet_at_the_first_node(nodes: str, first: str) -> None:
    variables = {**SLURM, "SLURM_STEP_NODELIST": nodes}
    assert address_from(detect(variables), variables).host == first


def test_ranks_are_expected_where_the_table_or_the_launcher_says() -> None:
    assert address_of_table(table("192.0.2.1"), {}).expected(1) == " (expected on 192.0.2.2)"
    assert (
        address_from(detect(TORCHRUN), TORCHRUN).expected(3) == " (expected on torchrun's node 1)"
    )
    slurm = {
        **SLURM,
        "SLURM_STEP_NUM_TASKS": "5",
        "SLURM_STEP_NODELIST": "node[09-10],other",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    }
    assert address_from(detect(slurm), slurm).hosts == (
        "node09",
        "node09",
        "node10",
        "node10",
        "other",
    )
    for unclear in (
        {"SLURM_STEP_NODELIST": "rack[1-2]node[1-2]"},
        {"SLURM_DISTRIBUTION": "cyclic"},
    ):
        assert address_from(detect(slurm), {**slurm, **unclear}).expected(1) == ""


def test_nobody_says_where() -> None:
    with pytest.raises(
        UsageError, match="Slurm does not say where rank 0 is: set RANKMESH_ADDRESS"
    ):
        address_from(detect(SLURM), SLURM)


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "many", "٣"])
def test_a_port_that_is_none(port: str) -> None:
    with pytest.raises(UsageError, match="RANKMESH_PORT is .* expected a port from 1 to 65535"):
        address_of_table(table("192.0.2.1"), {"RANKMESH_PORT": port})


def test_addresses() -> None:
    assert RendezvousAddress("127.0.0.1", 5, "").ip() == "127.0.0.1"
    with pytest.raises(
        UsageError, match="host name localhost is 127.0.0.1 here, which no other host can reach"
    ):
        RendezvousAddress("localhost", 5, "").ip()
    for host in ("no-such-host.invalid", "2001:db8::1", "x" * 300):
        with pytest.raises(UsageError, match="has no IPv4 address that is known here"):
            RendezvousAddress(host, 5, "").ip()
