"""How often a group of ranks has failed, how long it rests before it starts again, and when it may no more."""

from __future__ import annotations

import time

from ..comm.errors import RestartBudgetExhausted

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Failures:
    """Counts failures without a completed request between them; `budget` is how many there may be."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._died_at = 0.0
        self.count = 0
        self.last = ""
        """The last failure's error."""

    @property
    def exhausted(self) -> bool:
        """Whether there have been too many."""
        return self.count > self._budget

    @property
    def pause(self) -> float:
        """Seconds between a failure and the next start; none for the first since a request was completed."""
        return 0.0 if self.count < 2 else min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self.count - 2))

    @property
    def rest(self) -> float:
        """How many seconds of the pause are left."""
        return max(0.0, self._died_at + self.pause - time.monotonic())

    def too_many(self, replica: int, error: Exception) -> RestartBudgetExhausted:
        """What to say when they are, of which `error` was the last."""
        return RestartBudgetExhausted(f"replica {replica} has failed {self.count} times without a completed request "
                                      f"between, and is not started again. The last failure: {error}")

    def note(self, error: Exception) -> None:
        """The ranks have failed."""
        self._died_at, self.last = time.monotonic(), str(error)
        self.count += 1

    def complete(self) -> None:
        """A request was completed."""
        self.count = 0

    def forgive(self) -> None:
        """A request was completed, and what follows is no failure."""
        self.count = -1
