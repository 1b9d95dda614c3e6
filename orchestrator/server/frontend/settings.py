"""Settings of the server: give its address, its limits, and the times of its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....comm.errors import UsageError
from ..access.gate import AccessSettings
from ..access.tls_files import TlsFiles
from ..http.connection_counts import MOST_PROCESSES
from ..http.limits import HttpLimits
from ..observation.access_log import AccessLogSettings


def checked_processes(count: int) -> int:
    """How many processes answer clients. Raises UsageError."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PROCESSES:
        raise UsageError(
            f"server processes: got {count!r}, expected 1 to {MOST_PROCESSES}: no more than cores."
        )
    return count


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one server; times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free one."""

    allowed_hosts: tuple[str, ...] = ()
    """Names that the header Host may have, besides localhost, this host's, and addresses."""

    shared_memory_prefixes: tuple[str, ...] = ()
    """How the keys of the shared memory begin that clients may register; none: no shared memory."""

    drain_delay: float = 0.0
    """After TERM the server tells that it is not ready, and goes on for so long."""

    drain_timeout: float = 30.0
    """How long requests under way may take after that."""

    strict_json: bool = False
    """Whether answers in JSON have null for NaN and infinities, in place of the literals `NaN`,
    `Infinity` and `-Infinity`.
    """

    management: bool = False
    """Whether clients may load and unload models and update weights."""

    weights_folder: str | None = None
    """The folder that has the files of updates; None: weights are not updated."""

    limits: HttpLimits = field(default_factory=HttpLimits)

    processes: int = 1
    """How many processes answer clients; 1: that of the orchestrator itself."""

    grpc_port: int | None = None
    """None: no gRPC; 0: any free one."""

    access: AccessSettings = AccessSettings()
    access_log: AccessLogSettings = AccessLogSettings()
    tls: TlsFiles | None = None
    """None: no TLS."""
