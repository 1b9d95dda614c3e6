"""Collectives between hosts: a rank that finds no way to rank 0's host says so."""

from __future__ import annotations

import os

import pytest

from rankmesh.comm.collectives.backend import Membership
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.rendezvous.between_hosts import join_hosts

pytestmark = pytest.mark.pure
INTERFACE = "GLOO_SOCKET_IFNAME"


def member(address: str, arena: Arena) -> Membership:
    return Membership(
        rank=Rank(1, 2, 0, 1, "b", 0),
        arena=arena,
        exchange=lambda payload: [payload],
        groups=(),
        pairs=(),
        timeout=1.0,
        local=frozenset({1}),
        address=address,
    )


def test_an_address_that_no_interface_leads_to_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INTERFACE, raising=False)
    arena = Arena.create(2)
    try:
        # without the right to broadcast, the kernel refuses this address
        with pytest.raises(RankFailed, match=rf"rank 1.* 255\.255\.255\.255.*{INTERFACE}"):
            join_hosts(member("255.255.255.255", arena), "hierarchical")
        assert INTERFACE not in os.environ
    finally:
        arena.close()
