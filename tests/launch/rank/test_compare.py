from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankmesh.launch.rank.compare import Distance

pytestmark = pytest.mark.pure

BF16 = ml_dtypes.bfloat16
NAN, INF = float("nan"), float("inf")


def error(got: np.ndarray, reference: np.ndarray, **options: float) -> str:
    return Distance(got, reference, **options).error


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(np.float32, 1e-4), (np.float64, 1e-4), (np.float16, 2e-3), (BF16, 1e-2)],
)
def test_tolerance_goes_by_the_largest_reference(dtype: type, tolerance: float) -> None:
    reference = np.array([8.0, 0.0, -1.0])
    stored = reference.astype(np.float32 if dtype is BF16 else dtype)
    near, far = reference.copy(), reference.copy()
    near[1] = 8.0 * tolerance * 0.98
    far[1] = 8.0 * tolerance * 1.03
    assert error(near.astype(dtype), stored) == ""
    assert "relative error" in error(far.astype(dtype), stored)


def test_distances_are_reported() -> None:
    distance = Distance(np.array([4.0, 1.5], np.float32), np.array([4.0, 1.0], np.float32))
    assert (distance.max_absolute, distance.max_relative) == (0.5, 0.125)
    assert distance.error == "relative error 0.12 > 0.0001"


def test_floor_of_the_scale() -> None:
    zeros = np.zeros(2, np.float32)
    assert error(np.array([0, 9e-11], np.float32), zeros) == ""
    assert "relative error" in error(np.array([0, 2e-10], np.float32), zeros)


@pytest.mark.parametrize(
    ("got", "reference", "same"),
    [
        ([NAN, 1], [NAN, 1], True),
        ([NAN, 1], [1, NAN], False),
        ([1, NAN], [1, 1], False),
        ([INF, 1], [INF, 1], True),
        ([INF, 1], [-INF, 1], False),
        ([INF, 1], [NAN, 1], False),
        ([1, 1], [INF, 1], False),
        ([NAN], [NAN], True),
        ([-INF], [INF], False),
        ([INF, 1], [INF, 2], False),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16])
def test_nan_and_infinity(
    got: list[float], reference: list[float], same: bool, dtype: type
) -> None:
    stored = np.array(reference, np.float32 if dtype is BF16 else dtype)
    assert (error(np.array(got, dtype), stored) == "") == same
    assert (error(np.array(got, dtype), stored, rtol=0.1, atol=0.1) == "") == same


@pytest.mark.parametrize(
    ("got", "reference", "distance"),
    [
        ([NAN, 1], [1, 1], "nan"),
        ([1, 1], [NAN, 1], "nan"),
        ([NAN, INF], [1, -INF], "nan"),
        ([INF, 1], [1, 1], "inf"),
        ([INF, 1], [-INF, 1], "inf"),
        ([NAN, 1], [NAN, 1], "0.0"),
        ([1, 1, 1], [1, 1], "None"),
        ([NAN], [[1]], "None"),
    ],
)
def test_a_distance_of_nothing_is_not_zero(
    got: list[float], reference: list[Any], distance: str
) -> None:
    found = Distance(np.array(got, np.float32), np.array(reference, np.float32))
    assert (str(found.max_absolute), str(found.max_relative)) == (distance, distance)


def test_infinity_is_not_the_scale() -> None:
    got = np.array([INF, 1.0, 1.1], np.float32)
    assert "relative error" in error(got, np.array([INF, 1.0, 1.0], np.float32))


@given(
    hnp.arrays(
        st.sampled_from(
            [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")]
        ),
        hnp.array_shapes(max_dims=2, max_side=4),
    ),
    st.data(),
)
def test_integers_and_bools_are_exact(reference: np.ndarray, data: st.DataObject) -> None:
    got = data.draw(hnp.arrays(reference.dtype, reference.shape))
    distance = Distance(got, reference)
    assert (distance.error == "") == np.array_equal(got, reference)
    largest = max(abs(int(a) - int(b)) for a, b in zip(got.flat, reference.flat, strict=True))
    assert distance.max_absolute == float(largest)
    assert Distance(reference.copy(), reference).error == ""


@pytest.mark.parametrize(
    ("got", "reference", "dtype"),
    [
        (2**53 + 1, 2**53, np.uint64),
        (2**64 - 1, 2**64 - 2, np.uint64),
        (0, -(2**63), np.int64),
        (2**63 - 1, -(2**63), np.int64),
        (-(2**63), 2**63 - 1, np.int64),
        (2**53 + 1, 2**53, np.int64),
        (0, 2**64 - 1, np.uint64),
    ],
)
def test_integers_at_the_edges(got: int, reference: int, dtype: type) -> None:
    distance = Distance(np.array([5, got], dtype), np.array([5, reference], dtype))
    assert distance.error == "not exactly equal"
    assert distance.max_absolute == float(abs(got - reference))


@pytest.mark.parametrize(
    ("rtol", "atol", "outside"),
    [
        (0.1, None, 1),
        (None, 0.2, 1),
        (0.05, 0.2, 1),
        (0.05, 0.1, 2),
        (0.1, 0.2, 0),
        (0.0, 0.0, 2),
        (None, 0.0, 2),
    ],
)
def test_elementwise_rule(rtol: float | None, atol: float | None, outside: int) -> None:
    got, reference = (
        np.array([0.15, 10.0, -11.0], np.float32),
        np.array([0.0, 10.0, -10.0], np.float32),
    )
    said = error(got, reference, rtol=rtol, atol=atol)
    assert said.partition(",")[0] == (
        f"{outside} of 3 elements outside rtol {rtol or 0:g}" if outside else ""
    )


def test_elementwise_rule_also_for_integers() -> None:
    got, reference = np.array([11, 0]), np.array([10, 0])
    assert error(got, reference, rtol=0.1) == error(got, reference, atol=1) == ""
    assert error(got, reference, atol=0.5) != "" and error(got, reference, rtol=0.0) != ""


def test_no_tolerance_that_is_no_number() -> None:
    assert error(np.ones(2), np.zeros(2), atol=NAN) != ""


@pytest.mark.parametrize(
    ("got", "reference", "phrase"),
    [
        (
            np.zeros(2, np.float32),
            np.zeros(2),
            "is float32, the reference float64: save it as .astype('float32')",
        ),
        (
            np.zeros(2, BF16),
            np.zeros(2),
            "is bfloat16, the reference float64: save it as .astype('float32')",
        ),
        (np.zeros(2), np.zeros(2, np.int64), "is float64, the reference int64"),
        (np.zeros(2, np.int64), np.zeros(2, np.int32), "is int64, the reference int32"),
        (np.zeros(2, BF16), np.zeros(2, np.float16), "is bfloat16, the reference float16"),
        (np.zeros(2), np.zeros((2, 1)), "has shape [2], the reference [2, 1]"),
        (np.zeros(()), np.zeros(1), "has shape [], the reference [1]"),
        (np.zeros((0, 3)), np.zeros((0, 2)), "has shape [0, 3], the reference [0, 2]"),
        (np.zeros((0,), np.int32), np.zeros((0,), np.int64), "is int32"),
    ],
)
def test_dtype_and_shape_must_match(got: np.ndarray, reference: np.ndarray, phrase: str) -> None:
    assert phrase in error(got, reference, rtol=1e9, atol=1e9)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
def test_empty_outputs_match_by_shape(shape: tuple[int, ...]) -> None:
    assert error(np.zeros(shape, np.float32), np.ones(shape, np.float32)) == ""


def test_scalars() -> None:
    assert error(np.array(3, np.int64), np.array(3, np.int64)) == ""
    assert error(np.array(3, np.int64), np.array(4, np.int64)) == "not exactly equal"
    assert error(np.array(NAN), np.array(NAN)) == ""
    assert error(np.float32(1.0), np.float32(1.1)) != ""


def test_bfloat16_is_not_compared_with_a_rounded_reference() -> None:
    assert error(np.array([INF], BF16), np.array([3.4e38], np.float32)) != ""
    distance = Distance(np.array([1.0], BF16), np.array([1.003], np.float32))
    assert distance.max_absolute == pytest.approx(0.003, rel=1e-3) and not distance.error


def test_differences_beyond_the_largest_float() -> None:
    assert "inf" in error(np.array([1.5e308]), np.array([-1.5e308]))


def test_complex() -> None:
    x = np.array([1 + 2j, NAN], np.complex64)
    assert error(x, x.copy()) == ""
    assert error(x, x * np.complex64(1.5)) != ""
