"""String tensors: their form in shared memory, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.serving.string_tensor import (
    decode_elements,
    encode_elements,
    packed,
    packed_shape,
    strings_of,
    unpacked,
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
