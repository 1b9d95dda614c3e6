"""Restart budget: counts the failures of a replica, limits its restarts, and logs its outages.

Last of the ten files of docs/architecture.md: after a death, `Replica` asks here whether and when
it may start its ranks again.
"""

from __future__ import annotations

import logging
import time

from ...comm.errors import RestartBudgetExhausted
from ...comm.text import counted
from ..requests.journal import Journal


class RestartBudget:
    """Counts failures since the last completed request; more than `budget` exhaust it."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._failed_at = 0.0
        self.count = 0
        self.last = ""
        """The error of the last failure."""

    @property
    def exhausted(self) -> bool:
        """Whether the replica is not to start again."""
        return self.count > self._budget

    @property
    def pause(self) -> float:
        """Seconds between a failure and the next start; 0 for the first failure in a row."""
        return 0.0 if self.count < 2 else min(5.0, 0.1 * 2 ** (self.count - 2))

    @property
    def rest(self) -> float:
        """Seconds of the pause that are left."""
        return max(0.0, self._failed_at + self.pause - time.monotonic())

    def too_many(self, replica: int, error: Exception) -> RestartBudgetExhausted:
        """The error of a replica that is not started again; `error` is its last failure."""
        return RestartBudgetExhausted(
            f"replica {replica} has failed {self.count} times without a completed request "
            f"between, and is not started again. The last failure: {error}"
        )

    def note(self, error: Exception) -> None:
        """Count a failure."""
        self._failed_at = time.monotonic()
        self.last = str(error)
        self.count += 1

    def complete(self) -> None:
        """Note that a request was completed."""
        self.count = min(self.count, 0)  # what is forgiven stays so

    def forgive(self) -> None:
        """Note that a request was completed, and do not count the restart that follows."""
        self.count = -1


class Outage:
    """Begins when it is made; `again` has the ids of the requests that run again after it."""

    def __init__(self, replica: int, journal: Journal) -> None:
        self.again: list[int] = []
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

    def log_end(self, first: bool) -> None:
        """Log that the ranks are ready, for the `first` time or again."""
        seconds = time.monotonic() - self._since
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
