"""Repeated requests: each gets the answer of one that is read anew, right or wrong as it may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_http import Reply, ServerProcess, serving
from served_models import echo

SIZE = 4
PATH = "/v2/models/echo/infer"
ELEMENTS = [bytes(4 * SIZE), bytes(range(4 * SIZE)), b"\xff" * 4 * SIZE, bytes(8), b""]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(echo(tmp_path_factory.mktemp("repeated"), SIZE)) as made:
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
