"""Restart budget: counts the failures of a replica, and limits its restarts.

Last of the ten files of docs/architecture.md: after a death, `Replica` asks here whether and when
it may start its ranks again.
"""

from __future__ import annotations

import time

from ...comm.errors import RestartBudgetExhausted


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

    def note_lost(self, error: Exception) -> None:
        """Note that the host of the ranks was lost: no fault of theirs, and not counted."""
        self.last = str(error)

    def complete(self) -> None:
        """Note that a request was completed."""
        self.count = min(self.count, 0)  # what is forgiven stays so

    def forgive(self) -> None:
        """Note that a request was completed, and do not count the restart that follows."""
        self.count = -1
