"""Brief watch: what a rank sees before it sleeps, and that it leaves a wanted core alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from processes import wait_until

from rankmesh.comm.serving.brief_watch import BriefWatch

_AT_ONCE = 100e-6
"""Seconds, less than half of what one watch takes that nothing interrupts."""


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


def test_the_core_of_the_process_that_writes_is_left_at_once(words: memoryview) -> None:
    before, watch = os.sched_getaffinity(0), BriefWatch(words, 0, True)
    os.sched_setaffinity(0, {min(before)})
    try:
        words[1] = max(before) + 1
        wait_until(lambda: seconds_of_a_look(watch) > _AT_ONCE, "a look that lasts")
        watch.note_core()
        assert min(seconds_of_a_look(watch) for _ in range(5)) < _AT_ONCE
    finally:
        os.sched_setaffinity(0, before)


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
