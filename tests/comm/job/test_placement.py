from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.placement import RankSpec, core_shares, local_ranks, table_ranks
from rankmesh.comm.job.rank import Rank
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure


def table(*servers: tuple[str, str | None, dict[int, int]]) -> RankTable:
    """A table of (server_id, host_ip, {rank: device})."""
    listed = [
        {
            "server_id": server_id,
            **({"host_ip": host_ip} if host_ip else {}),
            "device": [{"device_id": str(d), "rank_id": str(r)} for r, d in devices.items()],
        }
        for server_id, host_ip, devices in servers
    ]
    document = {
        "version": "1.0",
        "server_count": str(len(listed)),
        "server_list": listed,
        "status": "completed",
    }
    return RankTable.parse(json.dumps(document).encode())


@given(st.lists(st.integers(0, 200), unique=True, max_size=40).map(sorted), st.integers(1, 20))
def test_cores_are_shared_evenly_and_once(cores: list[int], ranks: int) -> None:
    shares = core_shares(cores, ranks)
    assert len(shares) == ranks and len(set(map(len, shares))) == 1
    given_out = [core for share in shares for core in share]
    assert given_out == cores[: len(given_out)]
    assert len(shares[0]) == (len(cores) // ranks if ranks <= len(cores) else 0)


def test_ranks_of_this_host() -> None:
    assert local_ranks(2, "me", [0, 5], [4, 5, 6, 9, 10]) == [
        RankSpec(Rank(0, 2, 0, 2, "me", 0), (4, 5), 2),
        RankSpec(Rank(1, 2, 1, 2, "me", 5), (6, 9), 2),
    ]


def test_more_ranks_than_cores_are_not_pinned() -> None:
    specs = local_ranks(3, "me", [0, 0, 0], [0, 1])
    assert [(s.cores, s.threads) for s in specs] == [((), 1)] * 3


def test_another_device() -> None:
    spec = local_ranks(1, "me", [0], [0])[0]
    assert spec.on_device(3) == RankSpec(Rank(0, 1, 0, 1, "me", 3), (0,), 1)


def test_a_table_of_one_server_is_here_whatever_its_address() -> None:
    specs = table_ranks(
        table(("192.0.2.77", None, {1: 4, 0: 6})), ["me", "127.0.0.1"], "me", [0, 1]
    )
    assert [(s.rank.rank, s.rank.device, s.cores) for s in specs] == [(0, 6, (0,)), (1, 4, (1,))]
    assert specs[0].rank.world_size == specs[0].rank.local_size == 2


TWO = (("192.0.2.1", None, {0: 0}), ("192.0.2.2", "198.51.100.2", {1: 0, 2: 1}))


@pytest.mark.parametrize(
    ("names", "specs"),
    [
        (["me", "192.0.2.1"], [RankSpec(Rank(0, 3, 0, 1, "me", 0), (4, 5), 2)]),
        (
            ["192.0.2.2"],
            [
                RankSpec(Rank(1, 3, 0, 2, "me", 0), (4,), 1),
                RankSpec(Rank(2, 3, 1, 2, "me", 1), (5,), 1),
            ],
        ),
        (
            ["198.51.100.2"],
            [
                RankSpec(Rank(1, 3, 0, 2, "me", 0), (4,), 1),
                RankSpec(Rank(2, 3, 1, 2, "me", 1), (5,), 1),
            ],
        ),
    ],
)
def test_of_several_servers_this_hosts_is_found(names: list[str], specs: list[RankSpec]) -> None:
    assert table_ranks(table(*TWO), names, "me", [4, 5]) == specs


def test_no_server_is_this_host() -> None:
    with pytest.raises(
        UsageError, match=r"no server .* lists 192.0.2.1, 192.0.2.2, and this host is me, 127.0.0.1"
    ):
        table_ranks(table(*TWO), ["me", "127.0.0.1"], "me", [0])
