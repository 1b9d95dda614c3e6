"""String tensors: their form in shared memory, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmesh.comm.serving.string_tensor import (
    decode_elements,
    encode_elements,
    joined_size,
    packed,
    packed_shape,
    reshaped,
    split_rows,
    strings_of,
    unpacked,
    write_joined,
)

pytestmark = pytest.mark.pure


@given(st.lists(st.binary(max_size=40), max_size=24), st.sampled_from([(-1,), (1, -1), (-1, 1, 1)]))
def test_arrays_come_back(elements: list[bytes], shape: tuple[int, ...]) -> None:
    array = strings_of(elements).reshape(shape)
    vector = packed(array)
    assert vector.dtype == np.uint8 and packed_shape(vector) == array.shape
    found = unpacked(vector)
    assert found.shape == array.shape
    assert found.reshape(-1).tolist() == elements


def test_texts_and_numpys_own_strings_are_taken() -> None:
    assert strings_of(["ä", b"\xff"]).tolist() == ["ä".encode(), b"\xff"]
    assert strings_of(np.array([["a", "bc"]])).tolist() == [[b"a", b"bc"]]
    assert strings_of(np.array([b"a", b"bc"])).tolist() == [b"a", b"bc"]
    assert strings_of("one").shape == ()


@pytest.mark.parametrize("value", [[1], [None], ["a", 2.5], [["a"], ["b", "c"]]])
def test_other_elements_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a text or bytes|inhomogeneous"):
        strings_of(value)


def test_the_form_is_that_of_the_page() -> None:
    data = packed(strings_of([["ab"], [""]])).tobytes()
    assert data == struct.pack("<IQQ", 2, 2, 1) + b"\2\0\0\0ab" + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "shape", "text"),
    [
        (b"", (1,), "too few"),
        (b"\5\0\0\0ab", (1,), "ends within element 0 of 1"),
        (b"\0\0\0\0\1", (1,), "1 bytes behind its 1 elements"),
        (b"\xff\xff\xff\xff", (1,), "ends within element 0"),
        (b"\4\0\0\0abcd\1\0", (2,), "ends within element 1 of 2"),
        (b"", (1 << 62,), "too few for"),
    ],
)
def test_elements_that_do_not_fit_are_refused(
    data: bytes, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        decode_elements(data, shape)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_within_their_bounds(data: bytes) -> None:
    vector = np.frombuffer(data, np.uint8)
    try:
        found = unpacked(vector)
    except ValueError:
        return
    again = struct.pack(f"<I{found.ndim}Q", found.ndim, *found.shape)
    assert data == again + encode_elements(found.reshape(-1).tolist())


ROWS = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4)


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_of_tensors_are_joined_and_split_again(parts: list[list[tuple[bytes, bytes]]]) -> None:
    tensors = [strings_of(sum(one, ())).reshape(len(one), 2) for one in parts]
    vectors = [packed(one) for one in tensors]
    whole = np.empty(joined_size(vectors), np.uint8)
    write_joined(vectors, whole)
    assert unpacked(whole).tolist() == np.concatenate(tensors).tolist()
    found = split_rows(whole, [len(one) for one in parts])
    assert [one.tobytes() for one in found] == [one.tobytes() for one in vectors]


@pytest.mark.parametrize(
    ("data", "rows", "text"),
    [
        (packed(strings_of(["a", "b"])).tobytes(), [1], "5 bytes behind its 1 rows"),
        (packed(strings_of(["a"])).tobytes(), [1, 1], "ends before element 0 of 1"),
        (packed(strings_of(["abc"])).tobytes()[:-1], [1], "ends within the last of 1 elements"),
    ],
)
def test_rows_that_are_not_there_are_refused(data: bytes, rows: list[int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_rows(np.frombuffer(data, np.uint8), rows)


def test_another_shape_has_the_same_elements() -> None:
    found = reshaped(packed(strings_of([["a"], ["bc"]])), (2,))
    assert unpacked(found).tolist() == [b"a", b"bc"]
