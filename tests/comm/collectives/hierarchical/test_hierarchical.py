"""Collectives of several hosts: what they give, between processes that share an arena per host."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from collective_cases import KINDS, disagreements

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

StartRanks = Callable[..., Any]
HIERARCHICAL = "hierarchical"


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [[[0, 1], [2, 3]], [[0, 3, 1], [2]]])
def test_every_kind_gives_what_numpy_gives(start_ranks: StartRanks, hosts: list[list[int]]) -> None:
    """Groups of one to four ranks in any order, within a host and across hosts."""
    count = 80
    ranks = start_ranks(
        4, "compare", by=HIERARCHICAL, hosts=hosts, seed=3, count=count, kinds=KINDS
    )
    answers = [ranks.answer(rank) for rank in range(4)]
    assert [answer["wrong"] for answer in answers] == [[]] * 4
    assert [answer["cases"] for answer in answers] == [count] * 4
    assert disagreements([answer["digests"] for answer in answers]) == []
