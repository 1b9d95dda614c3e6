"""gRPC library: loaded so that its poller, the thread that waits for calls, reads connections too.

From 1.80 on, Python's servers of gRPC have their connections read by further threads, which hand
each event on (https://github.com/grpc/grpc/pull/41895). That costs a seventh of a small request
(docs/performance.md). gRPC reads the variable that turns it off once, as it is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

__all__ = ["LAST_EXAMINED", "grpc", "installed_version"]

_VARIABLE = "GRPC_EXPERIMENTS"
_VALUE = "-event_engine_listener"
_SINCE = (1, 80)
"""The first minor version that has these threads."""

LAST_EXAMINED = (1, 85)
"""The last minor version whose experiments were looked at. gRPC complains of a value that it does
not know, and a later version may have another way to do without these threads.
"""


@contextmanager
def _without_reading_threads() -> Iterator[None]:
    """Set the variable meanwhile; not where the user has set it, or gRPC is imported already."""
    known = _SINCE <= installed_version() <= LAST_EXAMINED
    if _VARIABLE in os.environ or "grpc" in sys.modules or not known:
        yield
        return
    os.environ[_VARIABLE] = _VALUE
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def installed_version() -> tuple[int, int]:
    """The major and minor version of the installed library."""
    major, minor = version("grpcio").split(".")[:2]
    return int(major), int(minor)


with _without_reading_threads():
    import grpc.aio
