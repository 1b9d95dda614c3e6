"""Brief watch: what a rank sees before it sleeps, and that it leaves a wanted core alone."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from processes import wait_until

from rankmesh.comm.serving.brief_watch import BriefWatch

_AT_ONCE = 40e-6
"""Seconds, less than a watch takes that sees nothing."""

GIVER = """
import mmap, os, sys
words = memoryview(mmap.mmap(int(sys.argv[1]), 16)).cast("Q")
while True:
    words[0] = words[1]
    os.sched_yield()
"""


@pytest.fixture
def words() -> memoryview:
    return memoryview(bytearray(64)).cast("Q")


@pytest.fixture
def wanted_core() -> Iterator[None]:
    """One core for this process, which another process wants all the time."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
        os.sched_setaffinity(0, before)


def test_a_word_that_is_there_is_seen_and_one_that_is_not_is_awaited(words: memoryview) -> None:
    words[3] = 5
    for allowed in (True, False):
        watch = BriefWatch(words, 3, allowed)
        assert watch.sees(4) and not watch.sees(5)


def test_a_word_that_comes_is_seen(words: memoryview) -> None:
    watch, seen = BriefWatch(words, 0, True), []

    def look() -> bool:
        seen.append(watch.sees(len(seen)))
        return True in seen

    setter = threading.Timer(0.01, words.__setitem__, (0, 1 << 40))
    setter.start()
    wait_until(look, "the word")
    setter.join()


def test_a_watch_is_short_once_orders_come_late_and_lasts_again_once_they_come_soon(
    words: memoryview,
) -> None:
    watch = BriefWatch(words, 0, True)

    def come(pause: float) -> float:
        """How long the watch for an order takes that comes in vain for it, after a sleep."""
        lasted = seconds_of_a_look(watch)
        time.sleep(pause)
        watch.woke()
        return lasted

    wait_until(lambda: come(0) > _AT_ONCE, "a look that lasts")
    for _ in range(8):
        come(0.001)
    assert min(come(0.001) for _ in range(5)) < _AT_ONCE
    wait_until(lambda: come(0) > _AT_ONCE, "a look that lasts again")


def test_a_process_on_the_same_core_can_give_an_order_between_two_looks() -> None:
    """It waits for this one on the core that this one looks from."""
    before, file = os.sched_getaffinity(0), os.memfd_create("words")
    os.ftruncate(file, 16)
    words = memoryview(mmap.mmap(file, 16)).cast("Q")
    watch = BriefWatch(words, 0, True)
    os.sched_setaffinity(0, {min(before)})

    def seen() -> int:
        """How many of the next orders come while the watch lasts."""
        found = 0
        for _ in range(20):
            words[1] += 1
            soon = watch.sees(words[1] - 1)
            while words[0] < words[1]:
                os.sched_yield()
            if not soon:
                watch.woke()
            found += soon
        return found

    giver = subprocess.Popen([sys.executable, "-c", GIVER, str(file)], pass_fds=[file])
    try:
        wait_until(lambda: seen() > 10, "orders that are seen")
    finally:
        os.sched_setaffinity(0, before)
        giver.kill()
        giver.wait()
        os.close(file)


def seconds_of_a_look(watch: BriefWatch) -> float:
    """How long it takes to see that nothing comes."""
    begun = time.perf_counter()
    assert not watch.sees(0)
    return time.perf_counter() - begun


def test_a_watch_rests_while_another_process_wants_the_core(
    words: memoryview, wanted_core: None
) -> None:
    watch = BriefWatch(words, 0, True)

    def rests() -> bool:
        for _ in range(100):  # long enough for the kernel to let the other process run
            watch.sees(0)
        return seconds_of_a_look(watch) < _AT_ONCE

    wait_until(rests, "a look that is over at once")
