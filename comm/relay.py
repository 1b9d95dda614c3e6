"""The rounds in which all ranks exchange payloads, as whoever relays them sees it (no sockets here)."""

from __future__ import annotations

import time


class Relay:
    """Collects one payload per rank, round by round, with a deadline from the first arrival of each.

    `timeout` is in seconds, 0 for none.
    """

    def __init__(self, world_size: int, timeout: float) -> None:
        self.timeout = timeout
        self._world_size = world_size
        self._payloads: dict[int, bytes] = {}
        self._first_arrival = 0.0

    def give(self, rank: int, payload: bytes) -> list[bytes] | None:
        """Take a rank's payload; everybody's, in rank order, once the round is complete."""
        if not self._payloads:
            self._first_arrival = time.monotonic()
        self._payloads[rank] = payload
        if len(self._payloads) < self._world_size:
            return None
        complete = [self._payloads[r] for r in range(self._world_size)]
        self._payloads = {}
        return complete

    @property
    def pending(self) -> bool:
        """Whether somebody waits for a round to be complete."""
        return bool(self._payloads)

    def patience(self) -> float | None:
        """Seconds until the round's deadline, 0 once it has passed, None while there is none."""
        if not self._payloads or not self.timeout:
            return None
        return max(0.0, self._first_arrival + self.timeout - time.monotonic())

    def late(self) -> list[int]:
        """The ranks that the round still waits for."""
        return [rank for rank in range(self._world_size) if rank not in self._payloads]
