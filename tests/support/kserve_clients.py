"""Every call of the inference clients of KServe's SDK: HTTP_PORT GRPC_PORT.

A program of its own, as the SDK registers the protocol's messages in protobuf's default pool. The
server has the model `doubler`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import httpx
import numpy as np
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferOutput,
    InferRequest,
    RESTConfig,
)
from kserve.protocol.infer_type import RequestedOutput

X = np.arange(40_000, dtype=np.float32).reshape(-1, 4)
BIAS = np.full(1, 0.5, np.float32)


def request(binary: bool = True, outputs: tuple[str, ...] = (), **more: Any) -> InferRequest:
    """x and the bias, in binary or as numbers."""
    inputs = []
    for name, array in (("x", X), ("bias", BIAS)):
        one = InferInput(name, list(array.shape), "FP32")
        one.set_data_from_numpy(array, binary_data=binary)
        inputs.append(one)
    wished = [RequestedOutput(name, {"binary_data": binary}) for name in outputs]
    return InferRequest("doubler", inputs, request_outputs=wished, request_id="7", **more)


def check(answer: Any) -> None:
    assert (answer.model_name, answer.id) == ("doubler", "7")
    found: dict[str, InferOutput] = {one.name: one for one in answer.outputs}
    np.testing.assert_array_equal(found["y"].as_numpy(), 2 * X + 0.5)


async def rest(url: str) -> None:
    config = RESTConfig(protocol="v2", retries=0)
    async with InferenceRESTClient(config) as client:
        assert await client.is_server_live(url) is True
        assert await client.is_server_ready(url) is True
        assert await client.is_model_ready(url, "doubler") is True
        assert await client.is_model_ready(url, "bert") is False
        for binary in (True, False):
            check(await client.infer(url, request(binary), "doubler"))
            check(await client.infer(url, request(binary, ("y",)), "doubler"))
        headers: dict[str, str] = {}
        given = request(parameters={"priority": 1, "timeout": 50_000_000})
        check(await client.infer(url, given, "doubler", response_headers=headers))
        assert "content-type" in headers
        document = {"inputs": [{"name": "bias", "shape": [1], "datatype": "FP32", "data": [1]}]}
        try:
            await client.infer(url, document, "doubler")
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 400 and "each once" in str(error), error
        else:
            raise AssertionError("a missing input was not refused")


async def rpc(address: str) -> None:
    async with InferenceGRPCClient(address, use_ssl=False, retries=0) as client:
        assert await client.is_server_live() is True
        assert await client.is_server_ready() is True
        assert await client.is_model_ready("doubler") is True
        for binary in (True, False):
            for answer in await asyncio.gather(*(client.infer(request(binary)) for _ in range(4))):
                check(answer)
        assert await client.is_model_ready("bert") is False
        try:
            await client.infer(InferRequest("bert", []))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND, error
        else:
            raise AssertionError("an unknown model was not refused")


asyncio.run(rest(f"http://127.0.0.1:{sys.argv[1]}"))
asyncio.run(rpc(f"127.0.0.1:{sys.argv[2]}"))
print("answered")
