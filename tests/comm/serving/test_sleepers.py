"""Sleepers of a ring: which of them an order wakes, and which these wake then."""

from __future__ import annotations

import ctypes

import pytest

from rankmesh.comm.serving.sleepers import Sleepers

pytestmark = pytest.mark.pure

RANKS = 20


class Table:
    """The words of sleeping ranks."""

    def __init__(self) -> None:
        room = (ctypes.c_uint64 * RANKS)()
        self.words = memoryview(room).cast("B").cast("Q")
        self.sleepers = Sleepers(self.words, ctypes.addressof(room))

    def asleep(self) -> list[int]:
        return [rank for rank, word in enumerate(self.words) if word]


def test_an_order_wakes_four_ranks_and_each_of_these_the_next() -> None:
    table = Table()
    for rank in range(RANKS):
        table.sleepers.announce(rank, 7)
    table.sleepers.wake(7)
    assert table.asleep() == [*range(4, RANKS)]
    for rank in range(4):
        table.sleepers.wake(7, rank)
        assert table.asleep() == [*range(4 * rank + 8, RANKS)]


def test_ranks_below_one_that_is_awake_are_woken_in_its_place() -> None:
    table = Table()
    for rank in {*range(RANKS)} - {0, 2, 5}:
        table.sleepers.announce(rank, 7)
    table.sleepers.wake(7)
    assert table.asleep() == [8, 9, 10, 11, 16, 17, 18, 19]  # those below 1 and 3


def test_ranks_that_sleep_for_another_order_are_left_asleep() -> None:
    table = Table()
    table.sleepers.announce(0, 8)
    table.sleepers.announce(1, 7)
    table.sleepers.wake(7)
    assert table.asleep() == [0]
