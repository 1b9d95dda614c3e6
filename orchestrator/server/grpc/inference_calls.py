"""Inference calls: one request and its answer, or a stream of both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ....comm.errors import InputError
from ...scheduling.loop_caller import AwaitedRequest
from ..faults import fault_of
from ..forwarding.forwarder import Forwarder
from ..observation.record import CURRENT
from ..repeated.prepared_request import UNFIT
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.forwarded_regions import InRegion
from ..shared_memory.transfers import with_shared_inputs, write_outputs
from ..steps import PART
from .calls import CallContext, CallHandler, known_fault, refuse
from .infer_request import inference_request, shared_inputs
from .infer_response import OutputWishes, response
from .infer_stream import InferenceStream
from .infer_wire import decoded, identified, streamed
from .prepared_call import PreparedCall
from .protocol.inference import ModelStreamInferResponse
from .repeated_calls import RepeatedCalls
from .transport.library import grpc
from .transport.service_handlers import METADATA

_REQUEST_ID = "x-request-id"
_STREAM_ENDS_AT_ERRORS = "triton_grpc_error"


class InferenceCalls:
    """Answers inference requests; each is cancelled with its call."""

    def __init__(
        self, state: ServerState, regions: ClientRegions, forwarder: Forwarder | None = None
    ) -> None:
        """`state` of the server, `regions` of its clients.

        Where another process has the regions, requests with tensors there are forwarded.
        """
        self._forwarder = forwarder
        self._state = state
        self._regions = regions
        self.answers = Counter[str]()
        """How many requests were answered, by status."""

        self._repeated = RepeatedCalls()
        self._streams: set[InferenceStream] = set()

    def handlers(self) -> dict[str, CallHandler]:
        """The handlers by the names of their methods."""
        return {
            "ModelInfer": grpc.unary_unary_rpc_method_handler(self._infer),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream),
        }

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def end_streams(self) -> None:
        """Read no more requests from streams, which end with the answers to those that came."""
        for stream in self._streams:
            stream.end()

    async def _infer(self, body: bytes, context: CallContext) -> bytes:
        try:
            answer = await self._answered(body, context)
        except InRegion:
            return await self._forwarded(body, context)
        except Exception as error:
            self.answers[fault_of(error).grpc.name] += 1
            await refuse(context, error)
        self.answers["OK"] += 1
        return answer

    async def _stream(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        strict = dict(METADATA.get()).get(_STREAM_ENDS_AT_ERRORS) == "true"

        async def answer(body: bytes) -> bytes:
            return await self._streamed(body, context, strict)

        stream = InferenceStream(answer)
        self._streams.add(stream)
        try:
            async for each in stream.answers(requests):
                yield each
        except Exception as error:
            await refuse(context, error)
        finally:
            self._streams.discard(stream)

    async def _forwarded(self, body: bytes, context: CallContext) -> bytes:
        """The answer of the process that has the regions, which counts the request as well."""
        assert self._forwarder is not None
        try:
            return await self._forwarder.call("ModelInfer", body)
        except Exception as error:
            await refuse(context, error)

    async def _streamed(self, body: bytes, context: CallContext, strict: bool) -> bytes:
        """The answer to one request of a stream; an error is one as well, unless `strict`."""
        try:
            try:
                answer = streamed(await self._answered(body, context))
            except InRegion:
                assert self._forwarder is not None
                answer = streamed(await self._forwarder.call("ModelInfer", body))
        except Exception as error:
            self.answers[fault_of(error).grpc.name] += 1
            if strict:
                raise
            return _stream_error(body, error)
        self.answers["OK"] += 1
        return answer

    async def _answered(self, body: bytes, context: CallContext) -> bytes:
        """The response to a message, which came before in all but its tensors, or is decoded."""
        prepared = self._repeated.find(body)
        if prepared is not None:
            with suppress(*UNFIT):
                return await _repeated(prepared, body, context.time_remaining())
        return await self._decoded(body, context)

    async def _decoded(self, body: bytes, context: CallContext) -> bytes:
        """The response to a message of any form."""
        given = decoded(body)
        service = self._state.service()
        message, raw = given.message, given.raw
        model = service.catalog.find(message.model_name, message.model_version)
        wishes = OutputWishes(message, self._regions)
        shared = shared_inputs(model, message, self._regions)
        decoding = partial(inference_request, model, message, raw, shared)
        much = given.decoded > PART or model.has_strings and len(body) > PART
        request = await self._state.threads.call(decoding) if much else decoding()
        called = replace(
            request,
            id=request.id or _named(),
            timeout=_least(request.timeout, context.time_remaining()),
        )
        if shared:
            called.inputs = await with_shared_inputs(service, model, request.inputs, shared)
        answer = await service.infer(called)
        if wishes.places:
            await write_outputs(answer, wishes.places)
        if wishes.plain and not shared:
            self._repeated.note(service, given, request)
        return response(answer, wishes)


async def _repeated(prepared: PreparedCall, body: bytes, left: float | None) -> bytes:
    """The response to a message that fits, which has so many seconds `left`."""
    request = AwaitedRequest(asyncio.get_running_loop(), placed=True)
    inputs = prepared.inference.inputs.copied(memoryview(body))
    prepared.begin(request, inputs, CURRENT.get(), left)
    await request.wait()
    found, name = prepared.response(request), _named()
    return identified(found, name) if name else found


def _stream_error(body: bytes, error: Exception) -> bytes:
    """The answer to a request of a stream that has failed; it names the request, if that can be
    read.
    """
    failed = ModelStreamInferResponse(error_message=known_fault(error).text)
    with suppress(InputError):
        message = decoded(body).message
        failed.infer_response.model_name = message.model_name
        failed.infer_response.id = message.id
    return failed.SerializeToString()


def _named() -> str:
    """The request's name in the call's metadata."""
    for key, value in METADATA.get():
        if key == _REQUEST_ID:
            return str(value)
    return ""


def _least(timeout: object, left: float | None) -> object:
    """A request's timeout, but no more than its call has left (seconds), in microseconds."""
    if left is None:
        return timeout
    most = max(1, int(left * 1e6))
    return min(timeout or most, most) if isinstance(timeout, int) and timeout >= 0 else timeout
