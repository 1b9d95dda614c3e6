"""Calls of gRPC: bytes in and out, and each error as the status that the table of faults has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar
from urllib.parse import unquote

from google.protobuf.message import DecodeError, Message

from ....comm.errors import InputError, RankmeshError
from ..faults import RequestFault, fault_of
from .transport.library import grpc

_LOG = logging.getLogger("rankmesh.server")
_STATUS = {code.value[0]: code for code in grpc.StatusCode}

CallContext: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
CallHandler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
MessageT = TypeVar("MessageT", bound=Message)


def unary(kind: type[MessageT], answer: Callable[[MessageT], Message]) -> CallHandler:
    """The handler of a call with one message each way, which is answered at once."""

    async def call(body: bytes, context: CallContext) -> bytes:
        try:
            return answer(parsed(kind, body)).SerializeToString()
        except Exception as error:
            await refuse(context, error)

    return grpc.unary_unary_rpc_method_handler(call)


def parsed(kind: type[MessageT], body: bytes) -> MessageT:
    """A message; InputError where the bytes are none of this kind."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise InputError(f"got {len(body)} bytes that are no {kind.DESCRIPTOR.name}.") from None


def client_of(context: CallContext) -> str:
    """The address of a client: `ipv4:127.0.0.1:5000` without kind and port."""
    return unquote(context.peer()).partition(":")[2].rpartition(":")[0]


async def refuse(context: CallContext, error: Exception) -> NoReturn:
    """End a call by the status of an error."""
    fault = known_fault(error)
    await context.abort(_STATUS[fault.grpc], fault.text, _trailer(fault))
    raise error  # for the type checker: `abort` has raised


def known_fault(error: Exception) -> RequestFault:
    """The fault of an error; errors of other classes than Rankmesh's go to the log."""
    if not isinstance(error, (RankmeshError, MemoryError)):
        _LOG.error("a call of gRPC failed", exc_info=error)
    return fault_of(error)


def _trailer(fault: RequestFault) -> tuple[tuple[str, str], ...]:
    """When to try again, as gRPC's clients with a retry policy understand it, and the queue."""
    found: dict[str, str] = {}
    if fault.retry_after is not None:
        found["grpc-retry-pushback-ms"] = str(1000 * fault.retry_after)
    if fault.depth is not None:
        found["queue-depth"] = str(fault.depth)
    return tuple(found.items())
