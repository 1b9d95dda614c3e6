"""Documents taken apart: they mean what they mean as a whole, and have little beside numbers."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from hostile_documents import SIZE, HostileDocuments

from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import ModelDescription, TensorDescription
from rankmesh.orchestrator.server.faults import UnknownRegion
from rankmesh.orchestrator.server.http.exchange import BadRequest
from rankmesh.orchestrator.server.rest.body_limits import most_inflated, require_size
from rankmesh.orchestrator.server.rest.document_reader import DocumentReader
from rankmesh.orchestrator.server.rest.documents.document_parts import (
    DocumentParts,
    taken_apart,
    whole,
)
from rankmesh.orchestrator.server.shared_memory.client_regions import ClientRegions
from rankmesh.orchestrator.server.steps import finished

pytestmark = pytest.mark.pure
MOST = 1 << 20


def model(*shape: int, dtype: str = "float32", inputs: str = "x", batch: int = 0):
    made = {
        name: TensorDescription.of(TensorSpec(name, dtype, shape), max_batch=batch)
        for name in inputs
    }
    return ModelDescription("echo", "1", ("1",), made, made)


def arrays(given: ModelDescription, text: bytes, parts: DocumentParts) -> dict[str, object]:
    head, _ = DocumentReader(ClientRegions(("/a",)), False).read(given, text, len(text), parts)
    return finished(head.arrays(memoryview(b"")))


@pytest.mark.parametrize("seed", range(4))
def test_a_document_means_the_same_in_parts_as_as_a_whole(seed: int) -> None:
    hostile = HostileDocuments(Random(seed))
    echo = model(SIZE)
    for _ in range(300):
        text = hostile.spoilt()
        found = []
        for make in (whole, lambda one: finished(taken_apart(one, MOST))):
            try:
                found.append(arrays(echo, text, make(text))["x"].tolist())
            except (InputError, UnknownRegion):
                found.append(None)
        assert found[0] == found[1], text


def test_the_lists_of_a_long_document_are_apart_whatever_stands_beside_them() -> None:
    values = np.arange(90_000, dtype=np.float32)
    values[::7] = np.nan
    one = {"name": "x", "shape": [90_000], "datatype": "FP32", "data": values.tolist()}
    other = {"data": values.reshape(3, -1).tolist(), **{**one, "name": "y", "shape": [3, 30_000]}}
    other["data"] = values.reshape(3, -1).tolist()
    document = {"id": '"data":[1],{}\\"', "inputs": [one, other], "parameters": {"a": "]}"}}
    plain, indented = (json.dumps(document, indent=indent).encode() for indent in (None, 2))
    for text in (plain, indented, plain.replace(b"NaN", b'"NaN"')):
        parts = finished(taken_apart(text, MOST))
        assert len(parts.rest) < 1000
        shapes = {"x": (90_000,), "y": (3, 30_000)}
        made = {
            name: TensorDescription.of(TensorSpec(name, "float32", shape))
            for name, shape in shapes.items()
        }
        found = arrays(ModelDescription("m", "1", ("1",), made, made), text, parts)
        assert np.array_equal(found["x"], values, equal_nan=True) and found["y"].shape == (
            3,
            30_000,
        )


@pytest.mark.parametrize(
    "rest",
    [
        '{"inputs":[' + '{"name":"","shape":[],"datatype":""},' * 40_000,
        '{"inputs":[{"shape":[' + "1," * MOST,
        '{"inputs":[{"data":["' + '","' * MOST,
        '{"inputs":[{"d\\u0061ta":[' + "1," * MOST,
        '{"id":"' + "a" * 2 * MOST,
        " " * 2 * MOST,
    ],
)
def test_a_document_with_much_beside_its_numbers_is_refused_before_it_is_decoded(rest: str) -> None:
    with pytest.raises(BadRequest, match="beside its lists of numbers") as refusal:
        finished(taken_apart(rest.encode(), MOST))
    assert refusal.value.status == 413


def test_a_key_in_another_spelling_gets_no_list_of_another() -> None:
    text = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [5]}]})
    text = text.replace('"data"', '"d\\u0061ta"')
    with pytest.raises(InputError, match="without escapes"):
        arrays(model(1), text.encode(), finished(taken_apart(text.encode(), MOST)))


@pytest.mark.parametrize(
    ("given", "elements"),
    [(model(1, 4), 4), (model(4, inputs="xy"), 8), (model(-1, 4, batch=8), 32)],
)
def test_bodies_are_bounded_by_what_the_inputs_can_need(given, elements: int) -> None:
    needed = MOST + 128 * elements
    assert most_inflated(given, 1 << 30) == needed
    require_size(given, needed, needed, 1 << 30)
    with pytest.raises(BadRequest, match=f"need {needed} at most"):
        require_size(given, needed + 1, 0, 1 << 30)


@pytest.mark.parametrize("given", [model(-1, 4), model(2, dtype="bytes")])
def test_bodies_of_any_size_are_bounded_by_an_eighth_where_they_are_decoded(given) -> None:
    assert most_inflated(given, 1 << 30) == 1 << 27
    assert most_inflated(given, 1 << 20) == 1 << 20
    require_size(given, 1 << 30, 1 << 27, 1 << 30)
    with pytest.raises(BadRequest, match="send tensors in binary"):
        require_size(given, 1 << 30, (1 << 27) + 1, 1 << 30)
