"""Outage: the time from a failure of a replica until its ranks are ready again, and its log."""

from __future__ import annotations

import logging
import time
from collections import deque

from ...comm.text import counted
from ..requests.journal import Journal

_KEPT = 20


class Outage:
    """Begins when it is made; `again` has the ids of the requests that run again after it."""

    def __init__(self, replica: int, journal: Journal) -> None:
        self.again: list[int] = []
        self.time = time.time()
        self.error = ""
        """That of the last failure of the ranks."""

        self.seconds: float | None = None
        """How long it took, once it has ended."""

        self.waits_for = ""
        """Why no host has a place for the ranks; empty where one has."""

        self._replica = replica
        self._journal = journal
        self._since = time.monotonic()

    def log_restart(self, pause: float, error: Exception) -> None:
        """Log that the ranks start again in `pause` seconds, because of `error`."""
        when = f"in {pause:.1f} s" if pause else "at once"
        self._journal.say(
            logging.WARNING,
            "replica %d restarts %s: %s",
            self._replica,
            when,
            error,
            replica=self._replica,
            requests=self.again,
        )

    def log_wait(self, reason: Exception) -> None:
        """Log that the ranks wait for a host, as `reason` tells, once for each reason."""
        if str(reason) == self.waits_for:
            return
        self.waits_for = str(reason)
        replica = self._replica
        text = "replica %d waits for a host: %s"
        self._journal.say(logging.WARNING, text, replica, reason, replica=replica)

    def log_end(self, first: bool) -> None:
        """Log that the ranks are ready, for the `first` time or again."""
        self.waits_for = ""
        self.seconds = seconds = time.monotonic() - self._since
        replica = self._replica
        if first:
            text = "replica %d is ready after %.2f s"
            self._journal.say(logging.INFO, text, replica, seconds, replica=replica)
            return
        self._journal.say(
            logging.INFO,
            "replica %d has recovered after %.2f s, with %s to run again",
            replica,
            seconds,
            counted(len(self.again), "request"),
            replica=replica,
            requests=self.again,
        )


def last_outages() -> deque[Outage]:
    """A place for the last 20 outages of a replica."""
    return deque(maxlen=_KEPT)
