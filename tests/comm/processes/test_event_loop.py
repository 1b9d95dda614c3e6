"""The event loop without a thread: descriptors, timers, and calls that forget each other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from rankmesh.comm.processes.event_loop import EventLoop

pytestmark = pytest.mark.pure


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    """Two pipes, as (readable, writable)."""
    made = [os.pipe() for _ in range(2)]
    yield made
    for ends in made:
        for end in ends:
            os.close(end)


def test_a_turn_waits_no_longer_than_it_is_told(loop: EventLoop) -> None:
    loop.call_later(3600, lambda: None)
    began = time.monotonic()
    loop.turn(0.01)
    assert time.monotonic() - began < 60


def test_timers_come_in_the_order_of_their_moments(loop: EventLoop) -> None:
    called: list[str] = []
    loop.call_later(0.02, lambda: called.append("later"))
    loop.call_later(0.01, lambda: called.append("sooner"))
    cancelled = loop.call_later(0.0, lambda: called.append("cancelled"))
    cancelled.cancel()
    assert not cancelled.pending
    while len(called) < 2:
        loop.turn()
    assert called == ["sooner", "later"]


def test_a_call_may_ask_for_another_in_the_same_turn(loop: EventLoop) -> None:
    called: list[str] = []

    def first() -> None:
        called.append("first")
        loop.call_soon(lambda: called.append("second"))

    loop.call_soon(first)
    loop.turn()
    assert called == ["first", "second"]


def test_a_descriptor_that_a_callback_forgets_is_not_called(
    loop: EventLoop, pipes: list[tuple[int, int]]
) -> None:
    (one, ring_one), (other, ring_other) = pipes
    called: list[int] = []

    def forget_the_other(mine: int, others: int) -> None:
        called.append(mine)
        loop.forget(others)

    loop.watch(one, lambda: forget_the_other(one, other))
    loop.watch(other, lambda: forget_the_other(other, one))
    os.write(ring_one, b"x")
    os.write(ring_other, b"x")
    loop.turn()
    assert len(called) == 1
    loop.forget(one)
    loop.forget(one)  # which is not watched any more


def test_an_error_of_a_callback_leaves_the_turn_and_the_loop_goes_on(loop: EventLoop) -> None:
    called: list[str] = []

    def fail() -> None:
        raise ValueError("enough")

    loop.call_soon(fail)
    loop.call_soon(lambda: called.append("next"))
    with pytest.raises(ValueError, match="enough"):
        loop.turn()
    loop.turn()
    assert called == ["next"]
