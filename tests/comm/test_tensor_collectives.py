"""Collectives on tensors, between processes: by gloo on CPUs, as NCCL has them on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")


KINDS = ["AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Broadcast"]
StartRanks = Callable[..., Any]


def test_kinds_on_tensors_give_what_numpy_gives(start_ranks: StartRanks) -> None:
    """And a rank that does not come to a captured run is named, as everywhere."""
    ranks = start_ranks(
        2, "tensors", by="gloo", seed=3, count=60, kinds=KINDS, absent=True, timeout=2
    )
    first = ranks.answer(0)
    assert (first["wrong"], first["recorded"]) == ([], 1)
    assert first["error"] == "CollectiveTimeout"
    assert "collective 3 (AllReduce of node 'recorded')" in first["text"]
    assert "rank 1 never entered it" in first["text"]


def test_stages_hand_tensors_over_in_memory_of_their_devices(start_ranks: StartRanks) -> None:
    """By a device whose memory is the host's; messages of other sizes are refused."""
    ranks = start_ranks(2, "stages", by="gloo", play="messages")
    sender, receiver = ranks.answer(0), ranks.answer(1)
    assert (sender["wrong"], receiver["wrong"]) == ([], [])
    assert receiver["error"] == "CollectiveMismatch"
    assert "Send/Receive with tag 0 of 20 bytes of float32" in receiver["text"]


def test_stages_without_access_to_each_others_devices_use_the_host(start_ranks: StartRanks) -> None:
    ranks = start_ranks(2, "stages", by="gloo", play="unreachable")
    for rank in range(2):
        assert ranks.answer(rank) == {"on_device": False, "got": [0, 1, 2, 3, 4]}
