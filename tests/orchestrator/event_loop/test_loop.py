"""The thread that watches: it wakes whatever moments it was asked for."""

from __future__ import annotations

import threading

import pytest
from processes import PATIENCE

from rankmesh.orchestrator.event_loop.loop import EventLoopThread


@pytest.mark.parametrize("seconds", [3e6, 1e12, 1e300])
def test_a_moment_that_the_kernel_cannot_wait_for_at_once(seconds: float) -> None:
    asleep, called = threading.Event(), threading.Event()
    loop = EventLoopThread()
    loop.call_soon(lambda: loop.call_later(seconds, called.set))
    loop.call_soon(asleep.set)
    loop.start()
    assert asleep.wait(PATIENCE)
    loop.call_soon(called.set)
    assert called.wait(PATIENCE)
    loop.stop()
    loop.join(PATIENCE)
    assert not loop.is_alive()
