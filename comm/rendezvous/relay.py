"""Relay of exchanges: collects one payload of each rank, round by round, without any sockets."""

from __future__ import annotations

import time
from collections.abc import Callable


class Relay:
    """The open round of a job: payloads that came, ranks that left, and the round's deadline.

    `timeout` is in seconds from the first payload of a round; 0 means no deadline.
    """

    def __init__(self, world_size: int, timeout: float) -> None:
        self.timeout = timeout
        self._world_size = world_size
        self._payloads: dict[int, bytes] = {}
        self._left: set[int] = set()
        self._first_arrival = 0.0

    def give(self, rank: int, payload: bytes) -> list[bytes] | None:
        """Take a rank's payload; return all payloads in rank order once the round is complete."""
        if not self._payloads:
            self._first_arrival = time.monotonic()
        self._payloads[rank] = payload
        if len(self._payloads) < self._world_size:
            return None
        complete = [self._payloads[r] for r in range(self._world_size)]
        self._payloads = {}
        return complete

    def leave(self, rank: int) -> None:
        """Note that a rank has ended, or is gone: it gives nothing more."""
        self._left.add(rank)

    @property
    def pending(self) -> bool:
        """Whether a round is open: some ranks have given their payloads."""
        return bool(self._payloads)

    @property
    def broken_by(self) -> int | None:
        """The first rank that left and that an open round waits for; None without one."""
        if not self.pending:
            return None
        return next((rank for rank in self.late() if rank in self._left), None)

    def next_timeout(self) -> float | None:
        """Seconds until the round's deadline: 0 after it, None without one."""
        if not self._payloads or not self.timeout:
            return None
        return max(0.0, self._first_arrival + self.timeout - time.monotonic())

    def late(self) -> list[int]:
        """The ranks that have given nothing to this round."""
        return [rank for rank in range(self._world_size) if rank not in self._payloads]


class ForwardingRelay(Relay):
    """See Relay, of a host that has a part of the ranks: payloads are collected elsewhere."""

    def __init__(self, world_size: int, forward: Callable[[int, bytes], None]) -> None:
        """`forward` takes a rank and its payload to where those of all ranks are collected."""
        super().__init__(world_size, 0.0)
        self._forward = forward

    def give(self, rank: int, payload: bytes) -> list[bytes] | None:
        """Pass a rank's payload on; the round is never complete here."""
        self._forward(rank, payload)
        return None
