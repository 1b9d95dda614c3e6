"""Every public call of all four clients of tritonclient: PREFIX HTTP_PORT GRPC_PORT.

The server has the model `doubler`, management, and shared memory for keys that begin with PREFIX.
A program of its own, as tritonclient registers the protocol's messages in protobuf's default pool.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as memory

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.ones(1, np.float32)
MODEL = ("doubler",)
ANSWERED: dict[str, tuple[Any, ...]] = {
    "is_server_live": (),
    "is_server_ready": (),
    "is_model_ready": MODEL,
    "get_server_metadata": (),
    "get_model_metadata": MODEL,
    "get_model_config": MODEL,
    "get_model_repository_index": (),
    "get_inference_statistics": MODEL,
    "get_trace_settings": MODEL,
    "get_log_settings": (),
    "get_cuda_shared_memory_status": (),
    "unregister_cuda_shared_memory": (),
    "unload_model": MODEL,
    "load_model": MODEL,
}
REFUSED: dict[str, tuple[Any, ...]] = {
    "update_log_settings": ({"log_info": False},),
    "update_trace_settings": ("doubler", {"trace_rate": "1"}),
    "register_cuda_shared_memory": ("gpu", b"AAAA", 0, 4),
}
CALLED_HERE = {
    *("infer", "async_infer", "async_stream_infer", "start_stream", "stop_stream", "stream_infer"),
    *("register_system_shared_memory", "get_system_shared_memory_status"),
    *("unregister_system_shared_memory", "generate_request_body", "parse_response_body"),
    *("plugin", "register_plugin", "unregister_plugin", "close"),
}


class Header(tritonclient.http.InferenceServerClientPlugin):
    """Adds a header to each request, and counts them."""

    count = 0

    def __call__(self, request: Any) -> None:
        request.headers["x-test"] = "1"
        self.count += 1


async def done(value: Any) -> Any:
    """What a call gives, whether it is one of asyncio's or not."""
    return await value if inspect.isawaitable(value) else value


def inputs(module: Any) -> list[Any]:
    given = []
    for name, array in (("x", X), ("bias", BIAS)):
        given.append(module.InferInput(name, list(array.shape), "FP32"))
        given[-1].set_data_from_numpy(array)
    return given


def check(answer: Any) -> None:
    np.testing.assert_array_equal(answer.as_numpy("y"), 2 * X + 1)


async def ask(module: Any, address: str, key: str) -> None:
    client = module.InferenceServerClient(address)
    every = {name for name in dir(client) if not name.startswith("_")}
    assert every <= {*ANSWERED, *REFUSED, *CALLED_HERE}, every
    for name, arguments in ANSWERED.items():
        await done(getattr(client, name)(*arguments))
    for name, arguments in REFUSED.items():
        await refused(client, name, arguments)
    plugin = Header()
    client.register_plugin(plugin)
    assert client.plugin() is plugin
    check(await done(client.infer("doubler", inputs(module))))
    client.unregister_plugin()
    assert plugin.count == 1
    await through_memory(module, client, key)
    await variants(module, client, address)
    await done(client.close())


async def refused(client: Any, name: str, arguments: tuple[Any, ...]) -> None:
    try:
        await done(getattr(client, name)(*arguments))
    except InferenceServerException as error:
        assert error.status() in ("400", "StatusCode.UNIMPLEMENTED"), error
    else:
        raise AssertionError(f"{name} was not refused")


async def through_memory(module: Any, client: Any, key: str) -> None:
    """x in shared memory, y to shared memory."""
    region = memory.create_shared_memory_region("tensors", key, 2 * X.nbytes)
    try:
        memory.set_shared_memory_region(region, [X])
        await done(client.register_system_shared_memory("tensors", key, 2 * X.nbytes))
        assert key in str(await done(client.get_system_shared_memory_status()))
        given = inputs(module)
        given[0].set_shared_memory("tensors", X.nbytes)
        wished = module.InferRequestedOutput("y")
        wished.set_shared_memory("tensors", X.nbytes, X.nbytes)
        await done(client.infer("doubler", given, outputs=[wished]))
        found = memory.get_contents_as_numpy(region, np.float32, X.shape, X.nbytes)
        np.testing.assert_array_equal(found, 2 * X + 1)
        await done(client.unregister_system_shared_memory("tensors"))
        assert key not in str(await done(client.get_system_shared_memory_status()))
    finally:
        memory.destroy_shared_memory_region(region)


async def variants(module: Any, client: Any, address: str) -> None:
    """What only some of the clients have."""
    given = inputs(module)
    if hasattr(client, "generate_request_body"):
        body, size = client.generate_request_body(given)
        headers = {"Inference-Header-Content-Length": str(size)} if size else {}
        url = f"http://{address}/v2/models/doubler/infer"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
            length = reply.headers["Inference-Header-Content-Length"]
            found = client.parse_response_body(reply.read(), header_length=length and int(length))
        check(found)
    if module is tritonclient.http:
        check(client.async_infer("doubler", given).get_result())
    if module is tritonclient.grpc:
        told: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(result: Any, error: Any) -> None:
            loop.call_soon_threadsafe(told.put_nowait, (result, error))

        client.async_infer("doubler", given, tell)
        client.start_stream(tell)
        client.async_stream_infer("doubler", given)
        for _ in range(2):
            result, error = await asyncio.wait_for(told.get(), 30)
            assert error is None
            check(result)
        client.stop_stream()
    if module is tritonclient.grpc.aio:
        async for result, error in client.stream_infer(requests(given)):
            assert error is None
            check(result)


async def requests(given: Any) -> AsyncIterator[dict[str, Any]]:
    for number in range(3):
        yield {"model_name": "doubler", "inputs": given, "request_id": str(number)}


async def main() -> None:
    prefix, http_port, grpc_port = sys.argv[1:]
    for module in (
        tritonclient.http,
        tritonclient.http.aio,
        tritonclient.grpc,
        tritonclient.grpc.aio,
    ):
        port = http_port if ".http" in module.__name__ else grpc_port
        await ask(module, f"127.0.0.1:{port}", f"{prefix}{module.__name__}")


asyncio.run(main())
print("answered")
