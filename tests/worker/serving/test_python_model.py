"""Python models: what a callable gets, and what is made of that which it returns."""

from __future__ import annotations

import mmap
from collections.abc import Callable

import numpy as np
import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.comm.serving.python_function import PythonFunction
from rankmesh.comm.serving.string_tensor import packed, strings_of, unpacked
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.worker.serving.python_model import PythonModel

pytestmark = pytest.mark.pure

ROWS = TensorSpec("x", "float32", (-1, 2))
SHARED = np.frombuffer(mmap.mmap(-1, 64), np.float32)  # memory that numpy does not own
X = SHARED[:4].reshape(2, 2)


def model(
    call: Callable[..., object], *outputs: TensorSpec, takes: TensorSpec = ROWS
) -> PythonModel:
    return PythonModel(PythonFunction("a/pre.py", "f", (takes,), outputs or (ROWS,)), call)


def test_an_input_that_is_returned_stays_where_it_is() -> None:
    found = model(lambda x: x).borrow({"x": X})["x"]
    assert np.shares_memory(found, X) and not found.flags.writeable


def test_other_memory_that_numpy_does_not_own_is_copied() -> None:
    kept = SHARED[8:12].reshape(2, 2)  # as if a callable had kept the input of another request
    for returned in (kept, kept[:1], X[:1]):
        found = model(lambda x, returned=returned: returned).borrow({"x": X})["x"]
        assert not np.shares_memory(found, SHARED)
    fresh = np.ones((4, 2), np.float32)
    assert np.shares_memory(model(lambda x: fresh[:2]).borrow({"x": X})["x"], fresh)


def test_strings_are_arrays_of_bytes_and_come_back_packed() -> None:
    texts = TensorSpec("x", "bytes", (-1,))
    seen = []

    def call(x: np.ndarray) -> list[str]:
        seen.extend(x.tolist())
        return ["ä", "b"]

    found = model(call, texts, takes=texts).borrow({"x": packed(strings_of(["one", ""]))})
    assert seen == [b"one", b""]
    assert unpacked(found["x"]).tolist() == ["ä".encode(), b"b"]


@pytest.mark.parametrize("returned", [(X, X), [X], {"y": X, "x": X}])
def test_outputs_come_by_order_or_by_name(returned: object) -> None:
    outputs = (ROWS,) if isinstance(returned, list) else (ROWS, TensorSpec("y", "float32", (2, -1)))
    given = returned[0] if isinstance(returned, list) else returned
    found = model(lambda x: given, *outputs).borrow({"x": X})
    assert [*found] == [one.name for one in outputs]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (None, "returned 'x' as object of shape []"),
        ({"y": X}, "returned ['y']"),
        ((X, X), "returned 2 values"),
        (X[0], "returned 'x' as float32 of shape [2]"),
        (X.astype(np.int32), "returned 'x' as int32 of shape [2, 2]"),
        ([[1.0, 2.0], [3.0]], "returned 'x': setting an array element"),
    ],
)
def test_what_is_not_as_declared_is_told(returned: object, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        model(lambda x: returned).borrow({"x": X})
    assert str(caught.value).startswith(f"pre.py:f {text}")
    assert "expected 'x' (float32 of [-1, 2]), as it is declared." in str(caught.value)


def test_a_failure_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    def call(x: object) -> None:
        raise ValueError("first\nsecond")

    with pytest.raises(ModelError, match=r"^pre\.py:f failed: ValueError: first$"):
        model(call).borrow({"x": X})
    assert "ValueError: first\nsecond" in capfd.readouterr().err
