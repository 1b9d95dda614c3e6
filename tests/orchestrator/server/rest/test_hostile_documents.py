"""Heads and documents of any content: each is read, or refused by an error that names the client's
mistake.
"""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random

import pytest
from hostile_documents import SIZE
from hostile_rest import HostileRest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import ModelDescription, TensorDescription
from rankmesh.orchestrator.server.faults import UnknownRegion
from rankmesh.orchestrator.server.http.exchange import BadRequest
from rankmesh.orchestrator.server.http.head_parser import HeadParser
from rankmesh.orchestrator.server.http.head_reader import HeadReader
from rankmesh.orchestrator.server.rest.document_reader import DocumentReader
from rankmesh.orchestrator.server.rest.repeated_inference import RepeatedInference
from rankmesh.orchestrator.server.server_state import ServerState
from rankmesh.orchestrator.server.shared_memory.client_regions import ClientRegions
from rankmesh.orchestrator.server.steps import finished
from rankmesh.orchestrator.server.triton.conventions import priority_of, seconds_of

pytestmark = pytest.mark.pure
X, Y = (TensorDescription.of(TensorSpec(name, "float32", (SIZE,))) for name in "xy")
MODEL = ModelDescription("echo", "1", ("1",), {"x": X}, {"y": Y})
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=9)
        | st.dictionaries(st.sampled_from(["name", "shape", "data", "parameters", "id"]), inner)
    ),
    max_leaves=20,
)
PARAMETERS = st.dictionaries(
    st.sampled_from(["binary_data_size", "shared_memory_region", "priority", "sequence_id"]),
    ANYTHING,
)
INPUTS = st.fixed_dictionaries(
    {
        "name": st.just("x") | ANYTHING,
        "shape": st.just([SIZE]) | st.lists(st.integers()) | ANYTHING,
    },
    optional={"datatype": st.just("FP32") | ANYTHING, "data": ANYTHING, "parameters": PARAMETERS},
)
DOCUMENTS = st.fixed_dictionaries(
    {"inputs": st.lists(INPUTS, max_size=2) | ANYTHING},
    optional={"outputs": ANYTHING, "id": ANYTHING, "parameters": PARAMETERS | ANYTHING},
)


def read(text: bytes, tail: bytes = b"") -> None:
    with suppress(InputError, UnknownRegion):
        head, _ = DocumentReader(ClientRegions(("/a",)), False).read(MODEL, text, len(text))
        (found,) = finished(head.arrays(memoryview(tail))).values()
        assert found.shape == (SIZE,) and found.dtype == "float32"


@settings(max_examples=50)
@given(DOCUMENTS, st.binary(max_size=40))
def test_a_document_of_any_values(document: object, tail: bytes) -> None:
    read(json.dumps(document).encode(), tail)


@pytest.mark.parametrize("digits", [30, 400, 4400, 100_000])
@pytest.mark.parametrize("place", ["shape", "data", "binary_data_size", "id"])
def test_a_document_with_a_number_of_many_digits(place: str, digits: int) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [SIZE], "data": [0] * SIZE}
    if place == "binary_data_size":
        x["parameters"] = {place: "N"}
        del x["data"]
    else:
        x[place] = ["N"] * SIZE if place == "data" else ["N"]
    read(json.dumps({"inputs": [x]}).replace('"N"', "7" * digits).encode())


@pytest.mark.parametrize("digits", [1, 30, 400, 4299])
def test_a_timeout_and_a_priority_of_many_digits(digits: int) -> None:
    many = 10**digits
    assert 0 < (seconds_of(many) or 0) < 1e9
    with pytest.raises(InputError, match="timeout: got"):
        seconds_of(-many)
    with pytest.raises(InputError, match="priority: got"):
        priority_of(-many)


@given(st.binary(max_size=200))
def test_a_document_of_any_bytes(text: bytes) -> None:
    read(text)


@given(st.binary(max_size=300), st.sampled_from([b"", b"POST / HTTP/1.1\r\nHost: a\r\n"]))
def test_a_head_of_any_bytes(data: bytes, before: bytes) -> None:
    with suppress(BadRequest):
        HeadParser(10, 1 << 15).parse(before + data + b"\r\n\r\n")


@pytest.mark.parametrize("seed", range(4))
def test_heads_of_the_grammar(seed: int) -> None:
    hostile = HostileRest(Random(seed))
    for _ in range(100):
        with suppress(BadRequest):
            HeadParser(100, 1 << 15).parse(
                hostile.draw()[0].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            )


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 20, "11", "-1", "x"])
def test_a_head_whose_document_has_an_impossible_length_wants_a_task(length: str) -> None:
    lines = ["POST /v2/models/echo/infer HTTP/1.1", "Host: a", "Content-Length: 10"]
    lines.append(f"Inference-Header-Content-Length: {length}")
    repeated = RepeatedInference(ServerState(), DocumentReader(ClientRegions(), False))
    head, _ = HeadReader(100, 1 << 15, repeated.takes).read("\r\n".join([*lines, "", ""]).encode())
    assert head.immediate is None


def test_heads_that_are_not_kept_want_a_task() -> None:
    repeated = RepeatedInference(ServerState(), DocumentReader(ClientRegions(), False))
    reader = HeadReader(9, 1 << 15, repeated.takes)
    for size, kept in ((10, True), (5000, False)):
        lines = ["POST /v2/models/echo/infer HTTP/1.1", "Host: a", "Content-Length: 10"]
        lines += ["Inference-Header-Content-Length: 5", f"A: {'a' * size}"]
        found = [reader.read("\r\n".join([*lines, "", ""]).encode())[0] for _ in range(2)]
        assert (found[0] is found[1]) == kept
        assert [head.immediate == 10 for head in found] == [kept] * 2


@pytest.mark.parametrize("shape", [(0, 1 << 62), (1 << 62, 0, 1 << 62), (1,) * 70])
def test_shapes_that_no_array_has_are_refused(shape: tuple[int, ...]) -> None:
    anything = TensorDescription.of(TensorSpec("x", "float32", None))
    with pytest.raises(InputError, match="32 dimensions or fewer, and the product"):
        anything.require("echo", "FP32", shape)
