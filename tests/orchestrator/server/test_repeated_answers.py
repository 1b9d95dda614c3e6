"""Repeated requests: each gets the answer of one that is read anew, right or wrong as it may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_grpc import GrpcClient, connected
from served_http import Reply, ServerProcess, serving
from served_models import echo

from rankmesh.orchestrator.server.grpc.protocol.inference import ModelInferRequest

SIZE = 4
PATH = "/v2/models/echo/infer"
ELEMENTS = [bytes(4 * SIZE), bytes(range(4 * SIZE)), b"\xff" * 4 * SIZE, bytes(8), b""]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(echo(tmp_path_factory.mktemp("repeated"), SIZE), "--grpc-port", "0") as made:
        yield made


INPUT = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "x", "x", "other"]),
        "datatype": st.sampled_from(["FP32", "FP32", "FP32", "INT32", "FP99"]),
        "shape": st.sampled_from([[SIZE], [SIZE], [SIZE], [1, SIZE], [-1], "four"]),
    },
    optional={
        "parameters": st.fixed_dictionaries(
            {}, optional={"binary_data_size": st.sampled_from([4 * SIZE, 4 * SIZE, 8, "16"])}
        ),
        "data": st.sampled_from([[1, 2, 3, 4], [1.5] * SIZE, [[1, 2], [3, 4]], [1], ["a"] * SIZE]),
    },
)
OUTPUT = st.fixed_dictionaries(
    {"name": st.sampled_from(["y", "y", "other"])},
    optional={"parameters": st.fixed_dictionaries({"binary_data": st.booleans()})},
)
DOCUMENT = st.fixed_dictionaries(
    {"inputs": st.lists(INPUT, min_size=1, max_size=1) | st.lists(INPUT, max_size=2)},
    optional={
        "id": st.sampled_from(["", "one", 2]),
        "outputs": st.lists(OUTPUT, max_size=2),
        "parameters": st.fixed_dictionaries(
            {},
            optional={
                "binary_data_output": st.booleans(),
                "priority": st.sampled_from([0, 1, -1]),
                "timeout": st.sampled_from([60_000_000, -1]),
            },
        ),
    },
)
GOOD = {
    "inputs": [
        {
            "name": "x",
            "datatype": "FP32",
            "shape": [SIZE],
            "parameters": {"binary_data_size": 4 * SIZE},
        }
    ],
    "parameters": {"binary_data_output": True},
}


def told(reply: Reply) -> tuple[int, object, bytes]:
    """What does not differ between two answers to one request."""
    return reply.status, reply.headers.get("inference-header-content-length"), reply.body


@settings(max_examples=60)
@given(document=st.just(GOOD) | DOCUMENT, elements=st.lists(st.sampled_from(ELEMENTS), min_size=1))
def test_an_answer_does_not_depend_on_how_often_its_request_came(
    server: ServerProcess, document: dict[str, Any], elements: list[bytes]
) -> None:
    """A body without a length, in chunks, is read anew each time."""
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    for tensors in elements:
        again = [server.ask("POST", PATH, head + tensors, headers) for _ in range(2)]
        anew = server.ask("POST", PATH, iter([head, tensors]), headers)
        assert [told(one) for one in again] == [told(anew)] * 2


def test_the_request_that_is_repeated_is_right(server: ServerProcess) -> None:
    head = json.dumps(GOOD).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    for elements in ELEMENTS[:3]:
        reply = server.ask("POST", PATH, head + elements, headers)
        assert reply.array().tobytes() == elements


CALL = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "x", "x", "other"]),
        "datatype": st.sampled_from(["FP32", "FP32", "FP32", "INT32", ""]),
        "shape": st.sampled_from([[SIZE], [SIZE], [SIZE], [1, SIZE], [-1], []]),
        "outputs": st.sampled_from([[], [], ["y"], ["other"], ["y", "y"]]),
        "priority": st.sampled_from([None, None, 1]),
        "version": st.sampled_from(["", "1", "9"]),
    }
)


def message_of(call: dict[str, Any], elements: bytes) -> ModelInferRequest:
    message = ModelInferRequest(model_name="echo", model_version=call["version"])
    message.inputs.add(name=call["name"], datatype=call["datatype"], shape=call["shape"])
    for name in call["outputs"]:
        message.outputs.add(name=name)
    if call["priority"] is not None:
        message.parameters["priority"].uint64_param = call["priority"]
    message.raw_input_contents.append(elements)
    return message


def answer(client: GrpcClient, message: ModelInferRequest) -> object:
    """The response without the id of its request, or the error."""
    try:
        found = client.send("ModelInfer", message)
    except grpc.RpcError as error:
        return error.code(), error.details()
    found.id = ""
    return found.SerializeToString(deterministic=True)


@settings(max_examples=60)
@given(call=CALL, elements=st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3))
def test_a_call_is_answered_alike_however_often_it_came(
    server: ServerProcess, call: dict[str, Any], elements: list[bytes]
) -> None:
    """A message with an id is read anew each time."""
    with connected(server.grpc_port) as client:
        for tensors in elements:
            message = message_of(call, tensors)
            again = [answer(client, message) for _ in range(3)]
            message.id = "anew"
            assert again == [answer(client, message)] * 3
