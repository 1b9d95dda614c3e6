"""Repository calls: the models with their states, and their management."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from ..model_repository import require_no_content
from ..server_state import ServerState
from .calls import CallContext, CallHandler, parsed, refuse, unary
from .protocol import inference
from .transport.library import grpc

_ModelIndex = inference.RepositoryIndexResponse.ModelIndex
WishT = TypeVar("WishT", bound=Message)


class RepositoryCalls:
    """Answers from the model repository of the server."""

    def __init__(self, state: ServerState) -> None:
        """`state` of the server."""
        self._state = state

    def handlers(self) -> dict[str, CallHandler]:
        """The handlers by the names of their methods."""
        return {
            "RepositoryIndex": unary(inference.RepositoryIndexRequest, self._index),
            "RepositoryModelLoad": _awaited(inference.RepositoryModelLoadRequest, self._load),
            "RepositoryModelUnload": _awaited(inference.RepositoryModelUnloadRequest, self._unload),
        }

    def _index(self, asked: inference.RepositoryIndexRequest) -> inference.RepositoryIndexResponse:
        return inference.RepositoryIndexResponse(
            models=[
                _ModelIndex(name=one.name, version=one.version, state=one.state, reason=one.reason)
                for one in self._state.index(asked.ready)
            ]
        )

    async def _load(
        self, asked: inference.RepositoryModelLoadRequest
    ) -> inference.RepositoryModelLoadResponse:
        manager = self._state.manager()
        require_no_content(list(asked.parameters))
        await manager.load(asked.model_name)
        return inference.RepositoryModelLoadResponse()

    async def _unload(
        self, asked: inference.RepositoryModelUnloadRequest
    ) -> inference.RepositoryModelUnloadResponse:
        await self._state.manager().unload(asked.model_name)
        return inference.RepositoryModelUnloadResponse()


def _awaited(kind: type[WishT], answer: Callable[[WishT], Awaitable[Message]]) -> CallHandler:
    """The handler of a call that takes its time."""

    async def call(body: bytes, context: CallContext) -> bytes:
        try:
            return (await answer(parsed(kind, body))).SerializeToString()
        except Exception as error:
            await refuse(context, error)

    return grpc.unary_unary_rpc_method_handler(call)
