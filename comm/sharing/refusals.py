"""Refusals: a log of refused processes, which no flood of them fills."""

from __future__ import annotations

import logging
import time

_LOG = logging.getLogger("rankmesh")
_SINGLE = 10
"""Refusals that get a line each, however fast they come."""


class Refusals:
    """Counts refusals and logs them: the first ones singly, later ones at most once a second."""

    def __init__(self, what: str = "weights refused") -> None:
        """`what` begins each line."""
        self._what = what
        self.count = 0
        self._told = 0
        self._last = ""
        self._next = 0.0

    @property
    def pending(self) -> bool:
        """Whether there are refusals that are not logged yet."""
        return self._told < self.count

    def add(self, pid: int, uid: int, reason: str) -> None:
        """Note that a process was refused."""
        self.count += 1
        self._last = (
            f"process {pid} of user {uid} at {time.strftime('%Y-%m-%d %H:%M:%S')}: {reason}"
        )
        if self.count <= _SINGLE:
            self._told = self.count
            _LOG.warning("%s to %s", self._what, self._last)

    def report(self) -> None:
        """Write one line for those since the last, at most once a second."""
        if not self.pending or time.monotonic() < self._next:
            return
        _LOG.warning(
            "%s %d more times, at last to %s", self._what, self.count - self._told, self._last
        )
        self._told = self.count
        self._next = time.monotonic() + 1.0
