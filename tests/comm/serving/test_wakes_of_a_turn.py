"""Wakes of ranks by an event loop: at the end of its turn, once for all orders of the turn."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from rankmesh.comm.serving.caller_slots import NO_SLOT, CallerSlots
from rankmesh.comm.serving.orders import Stop, encode_order
from rankmesh.comm.serving.ring import Ring

pytestmark = pytest.mark.pure

ORDER = encode_order(Stop())


@pytest.fixture
def slots() -> Iterator[CallerSlots]:
    made = CallerSlots(CallerSlots.create(), spare=False)
    yield made
    made.close()


def in_a_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_wakes_wait_for_the_end_of_the_turn_but_for_those_in_other_threads(
    slots: CallerSlots,
) -> None:
    woken: list[int] = []
    seat = slots.take()

    async def turns() -> None:
        slots.coalesce(seat, asyncio.get_running_loop().call_soon)
        for first in (0, 3):
            slots.wake_ranks(seat, woken.append, first)
            slots.wake_ranks(seat, woken.append, first + 1)
            assert len(woken) == first
            in_a_thread(lambda: slots.wake_ranks(seat, woken.append, 9))
            assert woken[first:] == [9]
            await asyncio.sleep(0)
            assert woken[first:] == [9, first, first + 1]

    asyncio.run(turns())


class RingWithARank(Ring):
    """A ring that tells whether its rank sleeps."""

    def lie_down(self, number: int) -> None:
        """The rank is about to sleep until an order comes."""
        self._sleepers.announce(0, number)

    def sleeps(self, number: int) -> bool:
        """Whether it has not been woken for that order."""
        return self._sleepers.wait_for(number)


def test_a_rank_sleeps_on_until_the_turn_of_the_loop_ends(slots: CallerSlots) -> None:
    fd, bell = Ring.create(1, 8), os.eventfd(0, os.EFD_NONBLOCK)
    ring, seat, due = RingWithARank(fd, bell, slots), slots.take(), list[Callable[[], None]]()
    slots.coalesce(seat, due.append)

    ring.lie_down(0)
    for number in range(3):
        ring.give(number, ORDER, seat)
    assert ring.sleeps(0) and len(due) == 1
    due.pop()()
    assert not ring.sleeps(0)

    slots.leave(seat)
    for number, caller in ((3, NO_SLOT), (4, seat)):  # no loop watches the slot any more
        ring.lie_down(number)
        ring.give(number, ORDER, caller)
        assert not ring.sleeps(number) and not due
    os.close(fd)
    os.close(bell)
