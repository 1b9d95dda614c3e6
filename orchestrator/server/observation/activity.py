"""Server activity: counts the open connections, streams and answers of one server process."""

from __future__ import annotations

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
