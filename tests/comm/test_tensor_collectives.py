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
