"""Forwarding application: sends all requests but those to models to another process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..http.exchange import (
    Application,
    BadRequest,
    BodyStream,
    HttpRequest,
    HttpResponse,
    error_response,
)
from ..shared_memory.forwarded_regions import InRegion
from .forwarder import Forwarder

_LONGEST_BODY = 16 << 20
"""Bytes that a forwarded body may have; requests to models may have more."""


class ForwardingApplication:
    """Answers requests to models, and forwards the others."""

    def __init__(self, inner: Application, forwarder: Forwarder, regions: bool) -> None:
        """`regions`: whether clients may have tensors in shared memory."""
        self._inner = inner
        self._forwarder = forwarder
        self._regions = regions

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """See Application."""
        match request.path:
            case ["v2", "models", _, "infer"] | ["v2", "models", _, "versions", _, "infer"]:
                return await self._inferred(request)
            case ["v2", "health", *_] | ["v2", "models", _, "ready"]:
                return await self._inner.answer(request)
        if (request.body.length or 0) > _LONGEST_BODY:
            return error_response(413, f"the body has more than {_LONGEST_BODY} bytes.")
        return await self._sent(request, request.body.read_rest)

    async def _inferred(self, request: HttpRequest) -> HttpResponse:
        if not self._regions:
            return await self._inner.answer(request)
        request.body = body = _RepeatedBody(request.body)
        try:
            return await self._inner.answer(request)
        except InRegion:
            return await self._sent(request, body.read_all)

    async def _sent(
        self, request: HttpRequest, read: Callable[[], Awaitable[bytes]]
    ) -> HttpResponse:
        try:
            content = await read()
        except BadRequest as error:
            return error_response(error.status, str(error))
        return await self._forwarder.page(request.method, request.path, request.headers, content)


class _RepeatedBody:
    """A body that keeps what is read of it as bytes.

    A tensor in shared memory is found before any tensor is read.
    """

    def __init__(self, inner: BodyStream) -> None:
        self._inner = inner
        self._parts: list[bytes] = []

    @property
    def length(self) -> int | None:
        """See BodyStream."""
        return self._inner.length

    async def read(self, size: int) -> bytes:
        """See BodyStream."""
        self._parts.append(await self._inner.read(size))
        return self._parts[-1]

    async def read_rest(self) -> bytes:
        """See BodyStream."""
        self._parts.append(await self._inner.read_rest())
        return self._parts[-1]

    async def read_into(self, memory: memoryview) -> None:
        """See BodyStream."""
        await self._inner.read_into(memory)

    async def read_all(self) -> bytes:
        """The whole body, of which the beginning has been read."""
        self._parts.append(await self._inner.read_rest())
        return b"".join(self._parts)
