"""Elementwise arithmetic, comparisons and casts against numpy."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from primitives import Fixed, check

RNG = np.random.default_rng(1)
F = RNG.standard_normal((3, 4)).astype(np.float32)
G = RNG.standard_normal((3, 4)).astype(np.float32)
N = np.array([[-7, -3, -1, 0], [1, 3, 7, 8]], np.int32)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16"]
)
@pytest.mark.parametrize(
    ("primitive", "function"),
    [
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Maximum", np.maximum),
        ("Minimum", np.minimum),
    ],
)
def test_arithmetic_in_every_dtype(
    tmp_path: Path, primitive: str, function: np.ufunc, dtype: str
) -> None:
    x, y = np.array([[1, 2, 100]]).astype(dtype), np.array([[3], [2]]).astype(dtype)
    check(tmp_path, primitive, [x, y], function(x, y))


def test_int8_wraps_around(tmp_path: Path) -> None:
    x = np.array([100, -100], np.int8)
    check(tmp_path, "Add", [x, x], x + x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_broadcasting_of_tensors_and_scalars(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "Mul", [F, F[:, :1]], F * F[:, :1], dynamic)
    check(tmp_path, "Sub", [Fixed(np.array(1.0, np.float32)), F], 1 - F, dynamic)
    check(tmp_path, "Muls", [F, 2], F * 2, dynamic)
    check(tmp_path, "Muls", [N, 0.5], (N * 0.5).astype(np.float32), dynamic)
    check(
        tmp_path,
        "Add",
        [np.array(2.0, np.float32), np.array(3.0, np.float32)],
        np.array(5.0, np.float32),
        dynamic,
    )


def test_division_of_integers(tmp_path: Path) -> None:
    y = np.array([2, -2, 3, 5], np.int32)
    check(tmp_path, "Div", [N, y], (N / y).astype(np.float32))
    check(tmp_path, "FloorDiv", [N, y], N // y)
    check(tmp_path, "FloorMod", [N, y], N % y)
    check(tmp_path, "Mod", [N, y], np.fmod(N, y))
    check(tmp_path, "TruncateDiv", [N, y], np.trunc(N / y).astype(np.int32))
    check(tmp_path, "DivMod", [N, y, 2], N // y)


@pytest.mark.parametrize("divisor", [0.7, -0.7])
def test_remainders_of_floats_have_the_sign_of_the_divisor(tmp_path: Path, divisor: float) -> None:
    y = np.float32(divisor)
    check(tmp_path, "FloorMod", [F, Fixed(np.array(y))], F % y)
    check(tmp_path, "RemainderTensorScalar", [N, 3], N % 3)
    check(tmp_path, "FmodScalar", [F, divisor], np.fmod(F, y))


def test_functions_of_integers_give_floats(tmp_path: Path) -> None:
    x = np.array([1, 4, 9], np.int32)
    check(tmp_path, "Sqrt", [x], np.sqrt(x).astype(np.float32))
    check(tmp_path, "Rsqrt", [x.astype(np.float32)], (1 / np.sqrt(x)).astype(np.float32))
    check(tmp_path, "Square", [x], x * x)
    check(tmp_path, "Trunc", [F * 3], np.trunc(F * 3))
    check(tmp_path, "Round", [F * 300, -1], np.round(F * 300, -1))
    check(tmp_path, "Erf", [F.astype(np.float64)], np.vectorize(math.erf)(F))


def test_angles_in_all_quadrants(tmp_path: Path) -> None:
    y, x = np.meshgrid([-1.0, 0.0, 2.0], [-3.0, 0.0, 1.0])
    check(
        tmp_path,
        "Atan2",
        [y.astype(np.float32), x.astype(np.float32)],
        np.arctan2(y, x).astype(np.float32),
    )


def test_addition_with_a_factor(tmp_path: Path) -> None:
    check(tmp_path, "AddExt", [F, G, 2], F + 2 * G)
    check(tmp_path, "SubExt", [F, G, 1], F - G)
    check(tmp_path, "AddN", [[F, G, F]], F + G + F)
    check(tmp_path, "Addcdiv", [F, G, G + 9, 0.5], F + 0.5 * G / (G + 9))


def test_zero_where_the_numerator_is_zero(tmp_path: Path) -> None:
    x, y = np.array([0, 1, 0, 4], np.float32), np.array([0, 2, 3, 0.5], np.float32)
    check(tmp_path, "Xdivy", [x, y], np.array([0, 0.5, 0, 8], np.float32))
    check(tmp_path, "DivNoNan", [x, y], np.array([0, 0.5, 0, 8], np.float32))


def test_clamp_with_one_bound(tmp_path: Path) -> None:
    check(tmp_path, "ClampScalar", [F, None, 0.5], np.minimum(F, 0.5))
    check(tmp_path, "ClampScalar", [N, -2, 3], N.clip(-2, 3))
    check(tmp_path, "ClampTensor", [F, G, None], np.maximum(F, G))


@pytest.mark.parametrize(
    ("type_id", "dtype"),
    [
        (30, "bool"),
        (32, "int8"),
        (33, "int16"),
        (34, "int32"),
        (35, "int64"),
        (37, "uint8"),
        (38, "uint16"),
        (39, "uint32"),
        (40, "uint64"),
        (42, "float16"),
        (43, "float32"),
        (44, "float64"),
    ],
)
def test_cast_by_type_id(tmp_path: Path, type_id: int, dtype: str) -> None:
    x = np.array([0.0, 1.5, 7.9], np.float32)
    check(tmp_path, "Cast", [x, type_id], x.astype(dtype))


def test_cast_to_a_type_of_the_old_grammar(tmp_path: Path) -> None:
    check(tmp_path, "Cast", [F], F.astype(np.float16), dst_type=np.dtype(np.float16))
    check(tmp_path, "Cast", [F, np.dtype(np.int32)], F.astype(np.int32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "uint8", "bool"])
def test_comparisons(tmp_path: Path, dtype: str) -> None:
    x, y = np.array([0, 1, 2, 1]).astype(dtype), np.array([1, 1, 0, 2]).astype(dtype)
    check(tmp_path, "Equal", [x, y], x == y)
    check(tmp_path, "NotEqual", [x, y], x != y)
    if dtype != "bool":
        check(tmp_path, "GreaterEqual", [x, y], x >= y)
        check(tmp_path, "LessScalar", [x, 1], x < 1)


def test_integers_compared_with_a_float(tmp_path: Path) -> None:
    check(tmp_path, "Greater", [N, 0.5], N > 0.5)


def test_what_is_close_and_finite(tmp_path: Path) -> None:
    x = np.array([1, np.inf, np.inf, np.nan, 2, -np.inf], np.float32)
    y = np.array([1.000001, np.inf, 3, np.nan, 2.1, np.inf], np.float32)
    check(tmp_path, "IsClose", [x, y, 1e-5, 1e-8, False], np.isclose(x, y))
    check(tmp_path, "IsClose", [x, y, 1e-5, 1e-8, True], np.isclose(x, y, equal_nan=True))
    check(tmp_path, "IsFinite", [x], np.isfinite(x))
    check(tmp_path, "IsNan", [x], np.isnan(x))


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "uint16", "int64", "uint64", "bool"]
)
def test_selection_in_every_dtype(tmp_path: Path, dtype: str) -> None:
    mask = np.array([True, False, True])
    x, y = np.array([1, 0, 3]).astype(dtype), np.array([[0], [1]]).astype(dtype)
    check(tmp_path, "Select", [mask, x, y], np.where(mask, x, y))
    check(
        tmp_path,
        "MaskedFill",
        [x, mask, Fixed(np.array(1, dtype))],
        np.where(mask, np.array(1, dtype), x),
    )


def test_bits_and_logic(tmp_path: Path) -> None:
    truth = np.array([True, False])
    check(tmp_path, "BitwiseAnd", [N, Fixed(np.array(5, np.int32))], N & 5)
    check(tmp_path, "BitwiseXor", [truth, np.array([True, True])], np.array([False, True]))
    check(
        tmp_path,
        "LogicalAnd",
        [truth, np.array([[1.0], [0.0]], np.float32)],
        np.array([[True, False], [False, False]]),
    )
    check(tmp_path, "LogicalNot", [truth], ~truth)


def test_activations(tmp_path: Path) -> None:
    check(tmp_path, "ReLU", [N], N.clip(0))
    check(tmp_path, "ReLU", [N.astype(np.int64)], N.astype(np.int64).clip(0))
    check(
        tmp_path,
        "GeluExt",
        [F, 0],
        (F * 0.5 * (1 + np.vectorize(math.erf)(F / math.sqrt(2)))).astype(np.float32),
    )
    check(tmp_path, "CeLU", [F, 2.0], np.where(F > 0, F, 2 * np.expm1(F / 2)).astype(np.float32))
    check(tmp_path, "SoftplusExt", [F * 20, 2, 20], np.logaddexp(0, F * 40).astype(np.float32) / 2)
    slopes = np.array([0.1, 0.2, 0.3], np.float32)
    x = RNG.standard_normal((2, 3, 2, 2)).astype(np.float32)
    check(tmp_path, "PReLU", [x, slopes], np.where(x > 0, x, x * slopes[:, None, None]))


@pytest.mark.parametrize("axis", [-1, 0, (1,), (-2,)])
def test_softmax_along_one_axis(tmp_path: Path, axis: int | tuple[int]) -> None:
    powers = np.exp(F)
    check(tmp_path, "Softmax", [F, axis], powers / powers.sum(axis, keepdims=True))
    check(tmp_path, "Softmax", [F], powers / powers.sum(axis, keepdims=True), axis=axis)
