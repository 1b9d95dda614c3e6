"""Settings of the gRPC server: its address and its limits."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Settings of one gRPC server."""

    host: str = "127.0.0.1"
    port: int = 8001
    """0: any free one."""

    message_bytes: int = 1 << 30
    """The longest message that is received, compressed or not."""

    connections: int = 1000
    """How many are open at a time; further ones are closed without a word."""

    streams: int = 250
    """Calls of one connection at a time; further ones wait at the client."""

    calls: int = 2000
    """Calls of all connections at a time; further ones are refused. As many more may wait until the
    server begins them; those beyond are cancelled.
    """

    handshake_seconds: float = 10.0
    """Until a new connection speaks HTTP/2, and TLS where that is asked for."""

    idle_seconds: float = 75.0
    """Without a call, after which a connection makes room for others; clients open it again."""

    shared: bool = False
    """Whether other processes of this server listen at the port as well."""

    def options(self) -> list[tuple[str, int]]:
        """The options for grpcio. A port has one server: a second one is refused, where the port is
        not shared.
        """
        return [
            ("grpc.so_reuseport", int(self.shared)),
            ("grpc.max_receive_message_length", min(self.message_bytes, _MOST_BYTES)),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", self.streams),
            # otherwise calls count whose answers are sent and whose memory is not yet free: clients
            # with as many calls as they may have would be refused. The limit of calls that wait
            # bounds what calls that are cancelled at once can hold.
            ("grpc.http.overload_protection", 0),
            ("grpc.server.max_pending_requests", self.calls),
            ("grpc.server.max_pending_requests_hard_limit", self.calls),
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.server_handshake_timeout_ms", int(1e3 * self.handshake_seconds)),
            ("grpc.max_connection_idle_ms", int(1e3 * self.idle_seconds)),
            ("grpc.per_message_decompression", 0),  # see inflated_calls
            ("grpc.keepalive_time_ms", 60_000),  # a client that is gone without a word is noticed
            ("grpc.keepalive_timeout_ms", 20_000),
        ]
