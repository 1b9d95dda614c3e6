"""Forwarded calls: of gRPC, answered by the process of the orchestrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, cast

from ..faults import ForwardedFault, GrpcCode, RequestFault
from ..forwarding.forwarder import Forwarder
from .calls import CallContext, CallHandler, refuse
from .transport.library import grpc

_HERE = {"ModelReady", "ServerLive", "ServerReady"}
"""Calls that are answered from what every process knows."""


def forwarded(handlers: Mapping[str, CallHandler], forwarder: Forwarder) -> dict[str, CallHandler]:
    """Handlers of the same methods, most of which ask the process of the orchestrator."""
    return {
        name: handler if name in _HERE else _forwarding(name, forwarder)
        for name, handler in handlers.items()
    }


async def answer_forwarded(handlers: Mapping[str, CallHandler], name: str, body: bytes) -> bytes:
    """The answer to a call of another process. Raises ForwardedFault."""
    handler: Any = handlers[name]
    return cast(bytes, await handler.unary_unary(body, _ForwardedContext()))


class _ForwardedContext:
    """The context of a call that another process has."""

    def time_remaining(self) -> None:
        """No deadline: the other process cancels the call at its own."""

    async def abort(
        self, code: grpc.StatusCode, details: str, trailer: Sequence[tuple[str, str]] = ()
    ) -> NoReturn:
        """End the call by a status."""
        found = dict(trailer)
        pushback, depth = found.get("grpc-retry-pushback-ms"), found.get("queue-depth")
        fault = RequestFault(
            500,
            GrpcCode(code.value[0]),
            details,
            None if pushback is None else int(pushback) // 1000,
            None if depth is None else int(depth),
        )
        raise ForwardedFault(fault)


def _forwarding(name: str, forwarder: Forwarder) -> CallHandler:
    return grpc.unary_unary_rpc_method_handler(partial(_forward, forwarder, name))


async def _forward(forwarder: Forwarder, name: str, body: bytes, context: CallContext) -> bytes:
    try:
        return await forwarder.call(name, body)
    except Exception as error:
        await refuse(context, error)
