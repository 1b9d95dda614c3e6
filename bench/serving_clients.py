"""Clients of a served echo model: each request has numbers of its own, each answer is checked."""

from __future__ import annotations

import asyncio
import itertools
from types import TracebackType

import grpc.aio
import numpy as np
from served_process import NUMBERS

from rankmesh.orchestrator.server.grpc.protocol import inference

_DOCUMENT = (
    b'{"inputs":[{"name":"x","shape":[1,%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}'
    b'],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
)
_END = b"\r\n\r\n"
INFER = "/v2/models/echo/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"
_NUMBERS = itertools.count()
_BASE = np.zeros(NUMBERS, np.float32)


class WrongAnswer(Exception):
    """An answer that is not the one to the request; or an error where there must be none."""


def payload() -> bytes:
    """Numbers that no other of the last 16 million requests of this process has."""
    return (_BASE + np.float32(next(_NUMBERS) % (1 << 24))).tobytes()


class RestClient:
    """One connection, which stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> RestClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, with its request if one is under way."""
        if self._streams is not None:
            self._streams[1].transport.abort()
        self._streams = None

    async def ask(
        self, method: bytes, path: str, body: bytes = b"", head: bytes = b""
    ) -> tuple[int, bytes]:
        """Status and body of the response; `head` has more headers, each with its end of line."""
        reader, writer = await self._open()
        start = b"%b %b HTTP/1.1\r\nHost: localhost\r\n" % (method, path.encode())
        writer.write(start + head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        try:
            found = await reader.readuntil(_END)
            length = found.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r")[0]
            answer = await reader.readexactly(int(length))
        except BaseException:
            self.close()
            raise
        if b"\r\nconnection: close" in found.lower():
            self.close()
        return int(found[9:12]), answer

    async def echo(self) -> None:
        """One request to the model. Raises WrongAnswer, or OSError where the connection ends."""
        data = payload()
        document = _DOCUMENT % (NUMBERS, len(data))
        head = b"Inference-Header-Content-Length: %d\r\n" % len(document)
        status, body = await self.ask(b"POST", INFER, document + data, head)
        if status != 200 or not body.endswith(data):
            raise WrongAnswer(f"{status} {body[:200]!r}")

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and not _ended(*self._streams):
            return self._streams
        self.close()
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return self._streams


def _ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the server has closed a connection, as it does with one that is idle for long."""
    return reader.at_eof() or writer.is_closing()


class GrpcClient:
    """One connection, on which any number of calls run."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.infer = self._channel.unary_unary(METHOD)

    async def __aenter__(self) -> GrpcClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def echo(self) -> None:
        """One request to the model. Raises WrongAnswer, or grpc.aio.AioRpcError."""
        data = payload()
        found = inference.ModelInferResponse.FromString(await self.infer(echo_message(data)))
        if found.raw_output_contents[0] != data:
            raise WrongAnswer("the answer has other numbers")


def echo_message(data: bytes, model: str = "echo", datatype: str = "FP32") -> bytes:
    """A request to the model, in its encoded form."""
    message = inference.ModelInferRequest(model_name=model)
    message.inputs.add(name="x", datatype=datatype, shape=[1, NUMBERS])
    message.raw_input_contents.append(data)
    encoded: bytes = message.SerializeToString()
    return encoded
