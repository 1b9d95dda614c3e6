"""Every call of tritonclient's gRPC clients, as its documentation has them: PORT.

A program of its own, as tritonclient registers the protocol's messages in protobuf's default pool.
The server has the models `doubler` and `echo` (of 1,024 float32).
"""

from __future__ import annotations

import asyncio
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.ones(1, np.float32)


def inputs() -> list[Any]:
    made = [triton.InferInput("x", [2, 4], "FP32"), triton.InferInput("bias", [1], "FP32")]
    made[0].set_data_from_numpy(X)
    made[1].set_data_from_numpy(BIAS)
    return made


def check(result: Any) -> None:
    np.testing.assert_array_equal(result.as_numpy("y"), 2 * X + 1)


def pages(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("echo")
    assert client.get_server_metadata().name == "rankmesh"
    assert client.get_model_metadata("doubler", as_json=True)["inputs"][0]["shape"] == ["-1", "4"]
    assert client.get_model_config("doubler").config.input[1].name == "bias"
    assert [one.name for one in client.get_model_repository_index().models] == ["doubler", "echo"]
    assert client.get_inference_statistics("echo").model_stats[0].name == "echo"
    assert not client.get_system_shared_memory_status().regions
    assert not client.get_cuda_shared_memory_status().regions
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    assert client.get_trace_settings().settings["trace_level"].value == ["OFF"]
    assert client.get_log_settings().settings["log_error"].bool_param


def requests(client: Any) -> None:
    result = client.infer("doubler", inputs(), request_id="7", priority=1, timeout=50_000_000)
    check(result)
    assert result.get_response().id == "7"
    classes = [triton.InferRequestedOutput("y", class_count=1)]
    found = client.infer("doubler", inputs(), outputs=classes).as_numpy("y")
    assert found.tolist() == [[b"7.000000:3"], [b"15.000000:3"]]
    check(client.infer("doubler", inputs(), compression_algorithm="gzip", client_timeout=30))
    answers: queue.Queue[Any] = queue.Queue()
    client.async_infer("doubler", inputs(), lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=30)
    assert error is None
    check(result)


def streams(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for model in ("doubler", "bert", "doubler"):
        client.async_stream_infer(model, inputs(), request_id=model)
    found = [answers.get(timeout=30) for _ in range(3)]
    check(found[0][0])
    assert "no model 'bert'" in found[1][1].message()
    check(found[2][0])
    client.stop_stream()


def management(client: Any) -> None:
    """`echo` goes, comes back as another version, and is replaced by a third."""
    client.unload_model("echo")
    states = [(one.name, one.state) for one in client.get_model_repository_index().models]
    assert states == [("doubler", "READY"), ("echo", "UNAVAILABLE")]
    client.load_model("echo")
    client.load_model("echo")
    found = client.get_model_repository_index().models[-1]
    assert (found.name, found.version, found.state) == ("echo", "3", "READY")
    assert client.is_model_ready("echo", "3")
    assert client.get_inference_statistics("echo", "3").model_stats[0].version == "3"


def refusals(client: Any) -> None:
    for code, call in (
        ("NOT_FOUND", lambda: client.get_model_metadata("bert")),
        ("INVALID_ARGUMENT", lambda: client.infer("doubler", inputs()[:1])),
        ("NOT_FOUND", lambda: client.load_model("bert")),
        ("INVALID_ARGUMENT", lambda: client.load_model("echo", config="{}")),
        ("UNIMPLEMENTED", lambda: client.register_system_shared_memory("a", "/b", 4)),
        ("UNIMPLEMENTED", lambda: client.register_cuda_shared_memory("a", b"AAAA", 0, 4)),
        ("UNIMPLEMENTED", lambda: client.update_log_settings({"log_info": False})),
    ):
        try:
            call()
        except InferenceServerException as error:
            assert error.status() == f"StatusCode.{code}", error
        else:
            raise AssertionError(f"expected {code}")


async def asynchronous(url: str) -> None:
    async with triton_aio.InferenceServerClient(url) as client:
        assert await client.is_server_ready()
        for result in await asyncio.gather(*(client.infer("doubler", inputs()) for _ in range(20))):
            check(result)

        async def given() -> Any:
            for number in range(3):
                yield {"model_name": "doubler", "inputs": inputs(), "request_id": str(number)}

        async for result, error in client.stream_infer(given()):
            assert error is None
            check(result)


def main() -> None:
    url = f"127.0.0.1:{sys.argv[1]}"
    with triton.InferenceServerClient(url) as client:
        pages(client)
        requests(client)
        streams(client)
        management(client)
        refusals(client)
    asyncio.run(asynchronous(url))
    print("all calls answered")


if __name__ == "__main__":
    main()
