"""Guarded calls: handlers of gRPC for the calls that the gate lets pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

from ..access.gate import Gate
from ..access.roles import AccessRole, role_of_call
from ..access.tokens import AccessToken
from .calls import CallContext, CallHandler, client_of, refuse
from .transport.service_handlers import METADATA
from .wrapped_call import WrappedCall

_KEY = "authorization"


def guarded(gate: Gate | None, handlers: dict[str, CallHandler]) -> dict[str, CallHandler]:
    """The same handlers behind a gate, by the names of their methods."""
    if gate is None:
        return handlers
    found = {}
    for name, handler in handlers.items():
        role = role_of_call(name)
        found[name] = handler if role is None else GuardedCall(gate, role, handler).handler()
    return found


class GuardedCall(WrappedCall):
    """One call behind a gate. Each request of a stream counts."""

    def __init__(self, gate: Gate, role: AccessRole, handler: CallHandler) -> None:
        super().__init__(handler)
        self._gate = gate
        self._role = role

    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        await self._admit(context, count=True)
        return cast(bytes, await self._inner.unary_unary(body, context))

    async def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        await self._admit(context, count=True)
        async with aclosing(self._inner.unary_stream(body, context)) as answers:
            async for each in answers:
                yield each

    async def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        token = await self._admit(context, count=False)
        client = client_of(context)

        async def counted() -> AsyncIterator[bytes]:
            async for each in requests:
                self._gate.count(token, client)
                yield each

        async with aclosing(self._inner.stream_stream(counted(), context)) as answers:
            async for each in answers:
                yield each

    async def _admit(self, context: CallContext, *, count: bool) -> AccessToken | None:
        given = [value for key, value in METADATA.get() if key == _KEY]
        try:
            token = self._gate.admit(self._role, str(given[0]) if given else "")
            if count:
                self._gate.count(token, client_of(context))
            return token
        except Exception as error:
            await refuse(context, error)
