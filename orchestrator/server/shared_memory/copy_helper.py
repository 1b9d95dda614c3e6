"""Copy helper: a thread that copies beside the thread of the loop, on another core."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from ....comm.host.current_core import current_core


class CopyHelper:
    """One thread, which starts with its first work.

    The kernel often runs a thread on the core of the one that wakes it. There the helper would copy
    after its caller instead of beside it, so its affinity leaves that core out.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "rankmesh-copies")
        self._cores = os.sched_getaffinity(0)
        self._thread = 0
        self._avoided = -1

    def submit(self, work: Callable[..., None], *arguments: object) -> Future[None]:
        """Begin `work` on another core than the caller's."""
        core = current_core()
        if core != self._avoided:
            self._avoid(core)
        return self._pool.submit(work, *arguments)

    def _avoid(self, core: int) -> None:
        self._avoided = core
        self._thread = self._thread or self._pool.submit(threading.get_native_id).result()
        others = self._cores - {core}
        if others:
            with suppress(OSError):  # a filter of system calls: it copies on any core
                os.sched_setaffinity(self._thread, others)
