"""Threads that wait for news, in processes that share nothing else."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import PATIENCE

from rankmesh.comm.serving.caller_slots import NO_SLOT, CallerSlots

OTHER = """
import mmap
import sys
from rankmesh.comm.serving.caller_slots import CallerSlots
mine, theirs, news, *files = map(int, sys.argv[1:])
seats = CallerSlots(files, spare=False)
told = memoryview(mmap.mmap(news, 16)).cast("Q")
for number in range(1, 1001):
    while told[0] < number:
        seats.wait(theirs)
    told[1] = number
    seats.notify(mine)
"""


@pytest.fixture(params=[False, True], ids=["sleeping", "looking"])
def seats(request: pytest.FixtureRequest) -> Iterator[CallerSlots]:
    made = CallerSlots(CallerSlots.create(), spare=request.param)
    yield made
    made.close()


@contextmanager
def killed_at_end(
    command: Sequence[str], files: Sequence[int]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive a test that fails."""
    with subprocess.Popen(command, pass_fds=files) as process:
        try:
            yield process
        finally:
            process.kill()


def waiter(seats: CallerSlots, seat: int) -> threading.Thread:
    """Somebody who waits, and goes on to do so."""
    thread = threading.Thread(target=seats.wait, args=(seat,), daemon=True)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread


@pytest.mark.timeout(PATIENCE)
def test_who_is_told_before_it_waits_does_not_wait(seats: CallerSlots) -> None:
    seat = seats.take()
    seats.notify(seat)
    seats.wait(seat)


def test_a_thread_that_sleeps_is_reminded_to_look(seats: CallerSlots) -> None:
    seat = seats.take()
    asleep = waiter(seats, seat)
    seats.remind()
    asleep.join(PATIENCE)
    assert not asleep.is_alive()


def test_news_come_once(seats: CallerSlots) -> None:
    seat = seats.take()
    seats.notify(seat)
    seats.wait(seat)
    again = waiter(seats, seat)
    seats.notify(seat)
    again.join(PATIENCE)
    assert not again.is_alive()


@pytest.mark.timeout(PATIENCE)
def test_another_process_wakes_who_sleeps(seats: CallerSlots, tmp_path: Path) -> None:
    """A thousand times to and fro: a wake that is lost would be the end of it.

    A wake may also come late, after its news were seen. So both sides look for news each time.
    """
    mine, theirs = seats.take(), seats.take()
    (tmp_path / "news").write_bytes(bytes(16))
    with open(tmp_path / "news", "r+b") as news:
        told = memoryview(mmap.mmap(news.fileno(), 16)).cast("Q")
        numbers = (mine, theirs, news.fileno(), *seats.files)
        command = [sys.executable, "-c", OTHER, *map(str, numbers)]
        with killed_at_end(command, [news.fileno(), *seats.files]) as other:
            for number in range(1, 1001):
                told[0] = number
                seats.notify(theirs)
                while told[1] < number:
                    seats.wait(mine)
            assert other.wait(PATIENCE) == 0


def test_a_seat_that_was_told_late_is_silent_for_who_takes_it_next(seats: CallerSlots) -> None:
    seat = seats.take()
    seats.leave(seat)
    seats.notify(seat)
    assert seats.take() == seat
    next_one = waiter(seats, seat)
    seats.notify(seat)
    next_one.join(PATIENCE)
    assert not next_one.is_alive()


def test_there_are_only_so_many(seats: CallerSlots) -> None:
    taken = set()
    while (seat := seats.take()) != NO_SLOT:
        taken.add(seat)
    assert len(taken) == 63
    seats.leave(NO_SLOT)
    assert seats.take() == NO_SLOT
    seats.leave(7)
    assert seats.take() == 7


def test_closing_wakes_who_waits_and_frees_the_files_when_all_have_left(seats: CallerSlots) -> None:
    seat = seats.take()
    waiting, files = waiter(seats, seat), seats.files
    seats.close()
    seats.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive() and seats.take() == NO_SLOT
    assert all(os.path.exists(f"/proc/self/fd/{file}") for file in files)
    seats.leave(seat)
    seats.notify(seat)
    assert seats.files == () and not any(os.path.exists(f"/proc/self/fd/{file}") for file in files)


def test_who_leaves_while_others_close_does_not_close_under_them(
    seats: CallerSlots, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat, written = seats.take(), []
    leaving = threading.Thread(target=seats.leave, args=(seat,))

    def write(file: int, data: bytes) -> int:
        if not written:
            leaving.start()
            leaving.join(0.05)  # it waits for the lock
        written.append(file)
        return len(data)

    monkeypatch.setattr(os, "write", write)
    files = seats.files
    seats.close()
    leaving.join(PATIENCE)
    assert written == list(files[1:]) and seats.files == ()


def test_seats_that_cannot_be_made_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def eventfd(*_: int) -> int:
        if len(made) == 10:
            raise OSError(errno.EMFILE, "no more")
        made.append(os.open("/dev/null", os.O_RDONLY))
        return made[-1]

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "eventfd", eventfd)
    with pytest.raises(OSError, match="no more"):
        CallerSlots.create()
    assert len(os.listdir("/proc/self/fd")) == before
