"""Numbers of JSON: the largest of each datatype are taken as they are, and larger ones refused; all
are counted before any list is made.
"""

from __future__ import annotations

import json
import tracemalloc
from random import Random

import msgspec
import numpy as np
import pytest

from rankmesh.comm.arrays import Array
from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import TensorDescription
from rankmesh.orchestrator.server.rest.documents.json_numbers import Span
from rankmesh.orchestrator.server.rest.documents.json_tensors import array_of
from rankmesh.orchestrator.server.steps import PART, finished

pytestmark = pytest.mark.pure
X = TensorDescription.of(TensorSpec("x", "float32", None))
TEXTS = TensorDescription.of(TensorSpec("x", "bytes", None))
MOST = 1 << 20


def array(tensor: TensorDescription, shape: tuple[int, ...], text: bytes) -> Array:
    """The array of a list that stands between others in its document."""
    return finished(array_of(tensor, shape, Span(b"[0]," + text + b"],", 4, 4 + len(text))))


@pytest.mark.parametrize(
    ("dtype", "fits", "beyond"),
    [
        *(
            (name, [np.iinfo(name).min, np.iinfo(name).max], [np.iinfo(name).max + 1])
            for name in ("int8", "int64")
        ),
        ("uint8", [0, 255], [-1]),
        ("uint64", [0, 2**64 - 1], [2**64]),
        ("float16", [-65504.0, 65504.0], [65520.0]),
        ("float32", [-(2.0**127), 2.0**127], [1e39]),
        ("bfloat16", [-0.5, 1.5], [1e39]),
    ],
)
def test_the_range_of_each_datatype(dtype: str, fits: list[float], beyond: list[float]) -> None:
    tensor = TensorDescription.of(TensorSpec("x", dtype, (-1,)))
    found = array(tensor, (2,), msgspec.json.encode(fits))
    assert found.tolist() == fits
    with pytest.raises(InputError, match=f"out of the range of {tensor.datatype}"):
        array(tensor, (1,), msgspec.json.encode(beyond))


@pytest.mark.parametrize("shape", [(50_000,), (5, 10_000), (10_000, 5), (50, 1, 1000), (50_000, 1)])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_long_list_is_read_part_by_part(shape: tuple[int, ...], indent: int | None) -> None:
    expected = np.arange(50_000, dtype=np.float32).reshape(shape) / 8
    text = json.dumps(expected.tolist(), indent=indent).encode()
    assert len(text) > 2 * PART
    assert np.array_equal(array(X, shape, text), expected)


@pytest.mark.parametrize(
    "text", [b"[1]," * (8 << 20), b"1," * (8 << 20), b"[[1,2],[3]]," * 999_999]
)
def test_more_elements_than_the_shape_has_are_refused_before_any_is_made(text: bytes) -> None:
    span = Span(b"[" + text + b"1]", 0, len(text) + 3)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="elements, expected 4 for the shape"):
            finished(array_of(X, (1, 4), span))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [0, 3])
def test_texts_are_counted_before_any_is_made(count: int) -> None:
    many = b"[" + b'"\\\\\\"",' * 100_000 + b'""]'
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"100001 elements, expected {count}"):
            array(TEXTS, (count,), many)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(many)
    finally:
        tracemalloc.stop()
    assert array(TEXTS, (2, 1), rb'[["a,\\\"]"],["\\"]]').tolist() == [[rb"a,\"]"], [b"\\"]]


@pytest.mark.parametrize(
    "text",
    [b"[1,2]", b"[[1],[2],[3]]", b"[]", b"[[]]", b'["1","2"]', b"[null,1,2,3]", b"[1,2,3,{}]"],
)
def test_lists_that_are_not_the_tensor_are_refused(text: bytes) -> None:
    with pytest.raises(InputError, match="the input 'x'"):
        array(X, (4,), text)


def test_an_input_without_elements_may_be_nested_but_not_long() -> None:
    for shape, text in (((0,), b"[]"), ((2, 0), b"[[],[]]"), ((0, 2), b"[ ]")):
        assert array(X, shape, text).shape == shape
    with pytest.raises(InputError, match="0 elements|no numbers"):
        array(X, (0,), b"[" + b"[]," * (4 << 20) + b"[]]")


@pytest.mark.parametrize("seed", range(3))
def test_malformed_lists_are_refused_as_json_says(seed: int) -> None:
    """Parts of a document of any size are read by us, and have JSON's own rules."""
    random = Random(seed)
    for _ in range(1000):
        text = bytearray(json.dumps(_nested(random, 3)).encode())
        for _ in range(random.choice([0, 1, 1, 2])):
            at = random.randrange(len(text) + 1)
            text[at : at + random.randint(0, 1)] = random.choice(
                [b"[", b"]", b",", b"1", b" ", b""]
            )
        expected = _read_by_json(bytes(text))
        count = text.count(b",") + 1
        if not text.startswith(b"["):
            continue
        try:
            found = array(X, (count,), bytes(text)).tolist()
        except InputError:
            found = None
        assert found == expected, text


def _nested(random: Random, deep: int) -> list[object]:
    inner = random.random() < 0.6 and deep
    some = range(random.randint(1, 3))
    return [_nested(random, deep - 1) if inner else random.randint(0, 99) for _ in some]


def _read_by_json(text: bytes) -> list[object] | None:
    """The numbers of a list; None where it is none of JSON, or has an empty list."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    flat: list[object] = []
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if one == []:
            return None
        if isinstance(one, list):
            waiting += reversed(one)
        else:
            flat.append(one)
    return flat
