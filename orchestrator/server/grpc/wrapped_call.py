"""Wrapped call: a handler of gRPC in place of another one, which it calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from .calls import CallContext, CallHandler
from .transport.library import grpc


class WrappedCall(ABC):
    """A handler around another one, with streams on the same sides."""

    def __init__(self, inner: CallHandler) -> None:
        self._inner: Any = inner

    def handler(self) -> CallHandler:
        """The handler that takes the place of the inner one."""
        if self._inner.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(self._streams)
        if self._inner.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._unary)

    @abstractmethod
    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        """One message, one answer."""

    @abstractmethod
    def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        """One message, many answers."""

    @abstractmethod
    def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        """Many messages, many answers."""
