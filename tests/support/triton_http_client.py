"""Calls of Triton's own HTTP clients to a served doubler: python triton_http_client.py ADDRESS."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import tritonclient.http
import tritonclient.http.aio

X = np.arange(40_000, dtype=np.float32).reshape(-1, 4)
BIAS = np.full(1, 0.5, np.float32)


def inputs(module: object, binary: bool = True) -> list[object]:
    """Both inputs, in binary or in JSON."""
    found = []
    for name, array in (("x", X), ("bias", BIAS)):
        one = tritonclient.http.InferInput(name, list(array.shape), "FP32")
        one.set_data_from_numpy(array, binary_data=binary)
        found.append(one)
    return found


def check(answer: object) -> None:
    np.testing.assert_array_equal(answer.as_numpy("y"), 2 * X + 0.5)


def ask(address: str) -> None:
    client = tritonclient.http.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("doubler") and client.is_model_ready("doubler", "1")
    assert not client.is_model_ready("bert")
    assert client.get_server_metadata()["name"] == "rankmesh"
    assert client.get_model_metadata("doubler")["inputs"][0]["shape"] == [-1, 4]
    assert client.get_model_config("doubler")["input"][0]["data_type"] == "TYPE_FP32"
    assert client.get_model_repository_index()[0]["state"] == "READY"
    assert client.get_log_settings() and client.get_trace_settings()
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    for binary in (True, False):
        wished = tritonclient.http.InferRequestedOutput("y", binary_data=binary)
        given = inputs(tritonclient.http, binary)
        answer = client.infer(
            "doubler", given, outputs=[wished], request_id="7", priority=1, timeout=50_000_000
        )
        check(answer)
        assert answer.get_response()["id"] == "7"
    for kind in ("gzip", "deflate"):
        check(client.infer("doubler", given, request_compression_algorithm=kind))
    check(client.async_infer("doubler", given).get_result())
    top = tritonclient.http.InferRequestedOutput("s", class_count=1)
    assert list(client.infer("doubler", given, outputs=[top]).as_numpy("s")) == [b"0.500000:0"]
    assert client.get_inference_statistics("doubler")["model_stats"][0]["inference_count"] >= 6
    check(
        client.infer("doubler", given, query_params={"a": 1}, response_compression_algorithm="gzip")
    )
    for update in (client.update_log_settings, client.update_trace_settings):
        try:
            update(settings={"log_info": False})
        except tritonclient.http.InferenceServerException as error:
            assert error.status() == "400", error
        else:
            raise AssertionError("settings were changed")
    try:
        client.infer("doubler", given[:1])
    except tritonclient.http.InferenceServerException as error:
        assert error.status() == "400" and "each once" in error.message()
    else:
        raise AssertionError("a missing input was not refused")
    client.unload_model("doubler")
    assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
    client.load_model("doubler")
    assert client.get_model_repository_index()[0]["state"] == "READY"
    check(client.infer("doubler", given, model_version="2"))
    client.close()


async def ask_async(address: str) -> None:
    async with tritonclient.http.aio.InferenceServerClient(address) as client:
        assert await client.is_server_ready()
        given = inputs(tritonclient.http.aio)
        for answer in await asyncio.gather(*(client.infer("doubler", given) for _ in range(8))):
            check(answer)


ask(sys.argv[1])
asyncio.run(ask_async(sys.argv[1]))
print("answered")
