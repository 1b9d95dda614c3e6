"""gRPC library: loaded so that its poller, the thread that waits for calls, reads connections too.

From 1.80 on, Python's servers of gRPC have their connections read by further threads, which hand
each event on (https://github.com/grpc/grpc/pull/41895). That costs a seventh of a small request
(docs/performance.md). gRPC reads the variable that turns it off once, as it is imported.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from .....comm.host.wake_preemption import set_wake_preemption

__all__ = ["grpc", "schedule_poller"]

_VARIABLE = "GRPC_EXPERIMENTS"
_VALUE = "-event_engine_listener"
_SINCE, _LAST = (1, 80), (1, 85)
"""The minor versions that have these threads, and a way to do without. gRPC complains of a value
that it does not know.
"""

_POLLER = "(_poll_wrapper)"
"""The end of the name of the poller's thread."""


@contextmanager
def _without_reading_threads() -> Iterator[None]:
    """Set the variable meanwhile; not where the user has set it, or gRPC is imported already."""
    if _VARIABLE in os.environ or "grpc" in sys.modules or not _SINCE <= _installed() <= _LAST:
        yield
        return
    os.environ[_VARIABLE] = _VALUE
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def schedule_poller(preempt: bool) -> None:
    """Let the poller preempt other threads as it wakes, or not.

    Where it does not, it takes several events at once, which spares processor time of small
    requests (docs/performance.md). Where ranks need all cores, it would wait for them.
    """
    for thread in threading.enumerate():
        if thread.native_id and thread.name.endswith(_POLLER):
            set_wake_preemption(thread.native_id, preempt)


def _installed() -> tuple[int, int]:
    major, minor = version("grpcio").split(".")[:2]
    return int(major), int(minor)


with _without_reading_threads():
    import grpc.aio
