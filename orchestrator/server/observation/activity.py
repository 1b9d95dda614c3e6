"""Server activity: counts the open connections, streams and answers of one server process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """Counts of one server process."""

    connections: int = 0
    """Open connections of HTTP."""

    responses: Mapping[int, int] = field(default_factory=dict)
    """Responses of HTTP by status."""

    streams: int = 0
    """Open streams of inference requests, of gRPC."""

    answers: Mapping[str, int] = field(default_factory=dict)
    """Inference requests of gRPC by the status of their answers."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """How many connections may be open at a time, by protocol."""

    processes: int = 1
    """Processes that answer clients."""

    restarts: int = 0
    """How many of them took the place of one that had ended."""

    def plus(self, other: ServerActivity) -> ServerActivity:
        """The counts of two processes."""
        return ServerActivity(
            self.connections + other.connections,
            Counter(self.responses) + Counter(other.responses),
            self.streams + other.streams,
            Counter(self.answers) + Counter(other.answers),
            Counter(self.limits) + Counter(other.limits),
        )

    def ended(self) -> ServerActivity:
        """The counts of a process that has ended: what it has open is no more."""
        return ServerActivity(0, self.responses, 0, self.answers)
