"""How long an orchestrator waits for what, and how much it takes on."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Times are in seconds, 0 for no limit; sizes in bytes."""

    timeout: float = 60.0
    """A request's deadline from its arrival, restarts included, where the request names none."""

    queue: int = 1000
    """Requests that may wait."""

    restart_budget: int = 5
    """Restarts of a group without a completed request between them."""

    start_timeout: float = 120.0
    """Until all ranks of a group are ready."""

    hang_timeout: float = 30.0
    """Without progress of a group that has work."""

    collective_timeout: float = 60.0
    """In a collective, from the first rank's entry."""

    leased: int = 1 << 30
    """What results that callers hold may take of shared memory; further ones are copied."""

    drain_timeout: float = 30.0
    """For requests that are under way when the orchestrator drains."""
