from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.rendezvous import relay as relay_module
from rankmesh.comm.rendezvous.relay import Relay

pytestmark = pytest.mark.pure


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(relay_module, "time", clock)
    return clock


@given(st.permutations(range(4)))
def test_round_is_complete_with_the_last_rank_and_in_their_order(order: list[int]) -> None:
    relay = Relay(4, 1.0)
    for _ in range(2):
        for rank in order[:-1]:
            assert relay.give(rank, bytes([rank])) is None
        assert relay.late() == [order[-1]] and relay.pending
        assert relay.give(order[-1], bytes([order[-1]])) == [b"\0", b"\1", b"\2", b"\3"]
        assert not relay.pending


def test_deadline_counts_from_the_first_of_each_round(clock: Clock) -> None:
    relay = Relay(3, 10.0)
    assert relay.next_timeout() is None
    relay.give(1, b"")
    clock.now += 4
    relay.give(0, b"")
    assert relay.next_timeout() == 6.0 and relay.late() == [2]
    clock.now += 7
    assert relay.next_timeout() == 0.0
    relay.give(2, b"")
    assert relay.next_timeout() is None
    relay.give(2, b"")
    assert relay.next_timeout() == 10.0


def test_round_is_broken_by_a_rank_that_left_and_that_others_wait_for() -> None:
    relay = Relay(3, 0.0)
    relay.leave(2)
    assert relay.broken_by is None  # no other rank waits yet
    relay.give(1, b"")
    relay.leave(1)  # it gave its payload before
    assert relay.broken_by == 2
    relay.give(0, b"")
    relay.give(2, b"")
    assert relay.broken_by is None


def test_no_deadline(clock: Clock) -> None:
    relay = Relay(2, 0.0)
    relay.give(0, b"")
    assert relay.next_timeout() is None
