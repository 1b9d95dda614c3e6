"""Health calls: gRPC's own protocol of health checks, for the server and for each model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from ..faults import UnknownModel
from ..server_state import ServerState
from .calls import CallContext, CallHandler, parsed, refuse, unary
from .protocol.health import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
    HealthListResponse,
)
from .transport.library import grpc

_LOOK = 0.25
"""Seconds between two looks of a watcher."""

_Status = HealthCheckResponse.ServingStatus


class HealthCalls:
    """Tells what ServerState knows. A service is the name of a model, or one of the server's."""

    def __init__(self, state: ServerState, services: tuple[str, ...]) -> None:
        """`services` are ready when the server is, and so is the empty name."""
        self._state = state
        self._services = ("", *services)
        self._ending = asyncio.Event()

    def handlers(self) -> dict[str, CallHandler]:
        """The handlers by the names of their methods."""
        return {
            "Check": unary(HealthCheckRequest, self._check),
            "List": unary(HealthListRequest, self._list),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
        }

    def end(self) -> None:
        """End all watches, with the word that the server does not serve."""
        self._ending.set()

    def _check(self, asked: HealthCheckRequest) -> HealthCheckResponse:
        found = self._status(asked.service)
        if found == HealthCheckResponse.SERVICE_UNKNOWN:
            raise UnknownModel(f"there is no service or model '{asked.service:.80}'.")
        return HealthCheckResponse(status=found)

    def _list(self, asked: HealthListRequest) -> HealthListResponse:
        names = (*self._services, *self._state.models())
        return HealthListResponse(
            statuses={name: HealthCheckResponse(status=self._status(name)) for name in names}
        )

    async def _watch(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        try:
            name = parsed(HealthCheckRequest, body).service
        except Exception as error:
            await refuse(context, error)
        told: _Status | None = None
        while not self._ending.is_set():
            if (found := self._status(name)) != told:
                yield HealthCheckResponse(status=found).SerializeToString()
                told = found
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _LOOK)
        if told != HealthCheckResponse.NOT_SERVING:
            yield HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING).SerializeToString()

    def _status(self, name: str) -> _Status:
        if name in self._services:
            ready = self._state.ready()
        elif name in self._state.models():
            ready = self._state.ready(name)
        else:
            return HealthCheckResponse.SERVICE_UNKNOWN
        return HealthCheckResponse.SERVING if ready else HealthCheckResponse.NOT_SERVING
