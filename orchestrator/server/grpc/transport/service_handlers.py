"""Service handlers: finds the handler of each call of one service, and keeps its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar

from .library import grpc

Metadata = Sequence[tuple[str, str | bytes]]

METADATA: ContextVar[Metadata] = ContextVar("rankmesh_grpc_metadata", default=())
"""The metadata of the call that this task answers: keys in small letters, and values. There are
none for a call that another process has forwarded.

gRPC has them ready as it looks for the handler, in the same task. The context of a call would make
them again.
"""


class ServiceHandlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The handlers of one service."""

    def __init__(self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
        """`handlers` by the names of their methods."""
        self._handlers = {f"/{service}/{name}": handler for name, handler in handlers.items()}

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """See grpc.GenericRpcHandler."""
        METADATA.set(handler_call_details.invocation_metadata)
        return self._handlers.get(handler_call_details.method)
