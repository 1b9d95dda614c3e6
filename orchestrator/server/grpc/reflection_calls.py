"""Reflection calls: tell a client which services there are, and the files that define them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from google.protobuf.descriptor import FileDescriptor

from .calls import CallContext, CallHandler, parsed, refuse
from .protocol.descriptors import POOL
from .protocol.reflection import (
    ErrorResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)
from .transport.library import grpc


class ReflectionCalls:
    """Answers from the private pool of this server."""

    def __init__(self, services: tuple[str, ...]) -> None:
        """`services` are listed."""
        self._services = services

    def handlers(self) -> dict[str, CallHandler]:
        """The handler by the name of its method."""
        return {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(self._info)}

    async def _info(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        try:
            async for body in requests:
                asked = parsed(ServerReflectionRequest, body)
                answer = self._answer(asked)
                answer.valid_host = asked.host
                answer.original_request.CopyFrom(asked)
                yield answer.SerializeToString()
        except Exception as error:
            await refuse(context, error)

    def _answer(self, asked: ServerReflectionRequest) -> ServerReflectionResponse:
        kind = asked.WhichOneof("message_request")
        try:
            if kind == "list_services":
                return self._listed()
            if kind == "file_by_filename":
                return _described(POOL.FindFileByName(asked.file_by_filename))
            if kind == "file_containing_symbol":
                return _described(POOL.FindFileContainingSymbol(asked.file_containing_symbol))
        except KeyError:
            return _error(grpc.StatusCode.NOT_FOUND, "there is no such file or symbol.")
        return _error(grpc.StatusCode.NOT_FOUND, "no message of this server has extensions.")

    def _listed(self) -> ServerReflectionResponse:
        services = [ServiceResponse(name=name) for name in self._services]
        return ServerReflectionResponse(
            list_services_response=ListServiceResponse(service=services)
        )


def _described(file: FileDescriptor) -> ServerReflectionResponse:
    """A file; none of this server's needs another."""
    files = FileDescriptorResponse(file_descriptor_proto=[file.serialized_pb])
    return ServerReflectionResponse(file_descriptor_response=files)


def _error(code: grpc.StatusCode, text: str) -> ServerReflectionResponse:
    error = ErrorResponse(error_code=code.value[0], error_message=text)
    return ServerReflectionResponse(error_response=error)
