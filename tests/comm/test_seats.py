"""Threads that wait for news, in processes that share nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.serving.seats import NO_SEAT, Seats

OTHER = """
import sys
from rankmesh.comm.serving.seats import Seats
fd, mine, theirs = map(int, sys.argv[1:])
seats = Seats(fd, spare=False)
for _ in range(1000):
    seats.wait(theirs)
    seats.tell(mine)
"""


@pytest.fixture(params=[False, True], ids=["sleeping", "looking"])
def seats(request: pytest.FixtureRequest) -> Iterator[Seats]:
    made = Seats(Seats.create(), spare=request.param)
    yield made
    made.close()


def test_who_is_told_before_it_waits_does_not_wait(seats: Seats) -> None:
    seat = seats.take()
    seats.tell(seat)
    started = time.monotonic()
    seats.wait(seat)
    assert time.monotonic() - started < 0.9  # a second would be the longest sleep


def test_news_come_once(seats: Seats) -> None:
    seat = seats.take()
    seats.tell(seat)
    seats.wait(seat)
    started = time.monotonic()
    seats.wait(seat)
    assert time.monotonic() - started > 0.9


def test_another_process_wakes_who_sleeps(seats: Seats) -> None:
    """A thousand times to and fro: a wake that is lost would cost a second."""
    mine, theirs = seats.take(), seats.take()
    other = subprocess.Popen([sys.executable, "-c", OTHER, str(seats.fd), str(mine), str(theirs)],
                             pass_fds=(seats.fd,))
    started = time.monotonic()
    for _ in range(1000):
        seats.tell(theirs)
        seats.wait(mine)
    assert time.monotonic() - started < PATIENCE / 2
    assert other.wait(PATIENCE) == 0


def test_a_seat_that_was_told_late_is_silent_for_who_takes_it_next(seats: Seats) -> None:
    seat = seats.take()
    seats.leave(seat)
    seats.tell(seat)
    assert seats.take() == seat
    started = time.monotonic()
    seats.wait(seat)
    assert time.monotonic() - started > 0.9


def test_there_are_only_so_many(seats: Seats) -> None:
    taken = set()
    while (seat := seats.take()) != NO_SEAT:
        taken.add(seat)
    assert len(taken) == 511
    seats.leave(NO_SEAT)
    assert seats.take() == NO_SEAT
    seats.leave(7)
    assert seats.take() == 7


def test_closing_lets_who_waits_end(seats: Seats) -> None:
    seat = seats.take()
    waiting = threading.Thread(target=seats.wait, args=(seat,))
    waiting.start()
    seats.close()
    seats.close()
    waiting.join(5)
    assert not waiting.is_alive()
