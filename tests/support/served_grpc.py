"""Calls of gRPC in tests: a plain client of grpcio with the server's own messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from processes import PATIENCE

from rankmesh.orchestrator.server.grpc.protocol import health, inference

_SERVICE = "inference.GRPCInferenceService"


class GrpcClient:
    """One connection to a server."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    def call(self, method: str, timeout: float = PATIENCE, /, **fields: Any) -> Any:
        """One call of the inference service, with the fields of its message."""
        kind = getattr(inference, f"{method}Request")
        return self.send(method, kind(**fields), timeout)

    def send(self, method: str, message: Any, timeout: float = PATIENCE, **options: Any) -> Any:
        """The same with a message, or the bytes of one."""
        return self.method(method)(message, timeout=timeout, **options)

    def method(self, method: str) -> Any:
        answer = getattr(inference, f"{method}Response")
        return self.channel.unary_unary(f"/{_SERVICE}/{method}", _bytes, answer.FromString)

    def stream(self, requests: Iterable[Any], timeout: float = PATIENCE, **options: Any) -> Any:
        """The answers to a stream of requests."""
        path = f"/{_SERVICE}/ModelStreamInfer"
        read = inference.ModelStreamInferResponse.FromString
        return self.channel.stream_stream(path, _bytes, read)(
            iter(requests), timeout=timeout, **options
        )

    def health(self, service: str) -> Any:
        path = "/grpc.health.v1.Health/Check"
        read = health.HealthCheckResponse.FromString
        call = self.channel.unary_unary(path, _bytes, read)
        return call(health.HealthCheckRequest(service=service), timeout=PATIENCE).status

    def watch(self, service: str) -> Any:
        path = "/grpc.health.v1.Health/Watch"
        read = health.HealthCheckResponse.FromString
        call = self.channel.unary_stream(path, _bytes, read)
        return call(health.HealthCheckRequest(service=service), timeout=PATIENCE)


@contextmanager
def connected(port: int) -> Iterator[GrpcClient]:
    """A client with a connection of its own."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        yield GrpcClient(channel)


def infer_message(
    model: str, arrays: dict[str, np.ndarray], datatype: str = "FP32", **fields: Any
) -> Any:
    """A request with raw contents."""
    message = inference.ModelInferRequest(model_name=model, **fields)
    for name, array in arrays.items():
        message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def _bytes(message: Any) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
