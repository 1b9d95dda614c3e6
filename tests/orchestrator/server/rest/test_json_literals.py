"""Documents that strict JSON does not allow, or that say nothing: literals, null, half a surrogate
pair, classes of no rows.
"""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import ModelDescription, TensorDescription
from rankmesh.orchestrator.server.classification import top_classes
from rankmesh.orchestrator.server.inference import InferenceAnswer
from rankmesh.orchestrator.server.rest.document_reader import DocumentReader, ReadDocument
from rankmesh.orchestrator.server.rest.documents.json_literals import with_quoted_literals
from rankmesh.orchestrator.server.rest.infer_request import decoded
from rankmesh.orchestrator.server.shared_memory.client_regions import ClientRegions
from rankmesh.orchestrator.server.steps import finished

pytestmark = pytest.mark.pure
SPECIAL = [math.nan, math.inf, -math.inf, 1.5]
FLOATS = ["float16", "float32", "float64", "bfloat16"]


def described(dtype: str, shape: tuple[int, ...] = (-1,)) -> ModelDescription:
    x, y = (TensorDescription.of(TensorSpec(name, dtype, shape)) for name in "xy")
    return ModelDescription("echo", "1", ("1",), {"x": x}, {"y": y})


def read(model: ModelDescription, document: object, strict: bool = False) -> ReadDocument:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return DocumentReader(ClientRegions(), strict).read(model, text, len(text))


def one_input(datatype: str, data: object, **others: object) -> dict[str, object]:
    x = {"name": "x", "shape": [len(SPECIAL)], "datatype": datatype, "data": data}
    return {"inputs": [{**x, **others}]}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("nested", [False, True])
def test_nan_and_infinities_in_a_request(dtype: str, nested: bool) -> None:
    model = described(dtype)
    data = [SPECIAL] if nested else SPECIAL
    for given_data in (data, ["NaN", "Infinity", "-Infinity", 1.5]):
        head, _ = read(model, one_input(model.inputs["x"].datatype, given_data))
        found = finished(head.arrays(memoryview(b"")))["x"]
        np.testing.assert_array_equal(found.astype(np.float64), SPECIAL)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_nan_is_no_element_of_other_datatypes(dtype: str) -> None:
    model = described(dtype)
    head, _ = read(model, one_input(model.inputs["x"].datatype, SPECIAL))
    with pytest.raises(InputError, match="the input 'x': Expected"):
        finished(head.arrays(memoryview(b"")))


@pytest.mark.parametrize(
    ("strict", "want"), [(False, "[NaN,Infinity,-Infinity,1.5]"), (True, "[null,null,null,1.5]")]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinities_in_an_answer(dtype: str, strict: bool, want: str) -> None:
    model = described(dtype)
    _, forms = read(model, one_input(model.inputs["x"].datatype, SPECIAL), strict)
    array = np.array(SPECIAL).astype(model.outputs["y"].dtype)
    (part,) = forms.response(InferenceAnswer(model, "", {"y": array})).parts
    assert f'"data":{want}' in bytes(part).decode()


@given(
    st.recursive(
        st.sampled_from(SPECIAL) | st.text('aN\\" NaInfinity-', max_size=12) | st.just("NaN"),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=12,
    )
)
def test_literals_become_strings_and_strings_stay(document: object) -> None:
    text = json.dumps(document).encode()
    quoted = with_quoted_literals(text)
    assert quoted is None or quoted != text
    found = msgspec.json.decode(text if quoted is None else quoted)
    named = json.loads(text, parse_constant=str)
    assert found == named


def test_null_counts_as_absent() -> None:
    model = described("float32")
    nothing = {"id": None, "parameters": None, "outputs": None}
    document = {**one_input("FP32", [1, 2, 3, 4], parameters=None), **nothing}
    head, forms = read(model, document)
    request = head.request(finished(head.arrays(memoryview(b""))), forms.names)
    assert (request.id, request.priority, request.timeout, request.outputs) == ("", 0, 0, [])
    with pytest.raises(InputError, match="has neither `data` nor `binary_data_size`"):
        read(model, one_input("FP32", None))
    binary = one_input("FP32", None, parameters={"binary_data_size": 16})
    wish = {"name": "y", "parameters": None}
    assert read(model, {**binary, "outputs": [wish]})[0].all_binary


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\ud800\ud800", "\\\ud9ff"])
def test_half_a_surrogate_pair_is_told(text: str) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        decoded(json.dumps({"id": text}).encode(), dict)


def test_whole_surrogate_pairs_and_texts_that_look_like_half_of_one_are_taken() -> None:
    for text in ("\U0001f600", "\\ud800"):
        assert decoded(json.dumps({"id": text}).encode(), dict) == {"id": text}
    with pytest.raises(InputError, match="truncated"):
        decoded(b'{"id": "\\\\ud800" ', dict)


@pytest.mark.parametrize(
    ("shape", "want"), [((0, 5), [0, 2]), ((3, 0), [3, 0]), ((0,), [0]), ((2, 1, 5), [2, 2])]
)
def test_classes_of_no_rows_are_none(shape: tuple[int, ...], want: list[int]) -> None:
    found, texts = top_classes(np.zeros(shape, np.float32), 2)
    assert found == want and len(texts) == math.prod(want)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("size", [8192, 8193, 20_000])
def test_a_long_answer_has_the_elements_of_a_short_one(size: int, strict: bool) -> None:
    model = described("float32")
    array = np.arange(size, dtype=np.float32)
    array[9000:9001] = np.nan
    wishes = [{"name": "y"}]
    _, forms = read(model, {**one_input("FP32", SPECIAL), "outputs": wishes}, strict)
    answer = InferenceAnswer(model, "\0@", {"y": array})
    assert forms.listed(answer) == size
    found = json.loads(b"".join(forms.response(answer).parts))
    expected = [None if strict and math.isnan(one) else one for one in array.tolist()]
    assert found["id"] == "\0@"
    np.testing.assert_array_equal(
        np.array(found["outputs"][0]["data"], float), np.array(expected, float)
    )
