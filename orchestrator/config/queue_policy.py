"""Queue policy: bounds how many requests of one priority wait, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...comm.errors import UsageError


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How requests of one priority wait; without `priority`, those of all that have no policy.

    - `limit`: how many may wait; None: as many as the queue holds.
    - `timeout`: seconds after which a request that still waits is refused, or with `delay` waits
      until no other of its priority or a higher one does.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    priority: int | None = None
    limit: int | None = None
    timeout: float | None = None
    delay: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"queue: got the limit {self.limit}, expected 1 or more.")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise UsageError(f"queue: got the timeout {self.timeout}, expected seconds.")


_ANY = QueuePolicy()


class QueuePolicies:
    """The policies of one model, by priority."""

    def __init__(self, policies: tuple[QueuePolicy, ...] = ()) -> None:
        self._by_priority = {one.priority: one for one in policies}

    def of(self, priority: int) -> QueuePolicy:
        """The policy of a priority."""
        default = self._by_priority.get(None, _ANY)
        return self._by_priority.get(priority, default)
