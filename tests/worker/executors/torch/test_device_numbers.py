"""Numbers as a GPU computes them, by the functions that make them those of a CPU."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from rankmesh.worker.executors.torch.numbers import integer_products
from rankmesh.worker.executors.torch.numbers.casts import in_dtype
from rankmesh.worker.executors.torch.numbers.integer_products import matrix_product, summed_product
from rankmesh.worker.executors.torch.tensors import integer_tensor

pytestmark = pytest.mark.pure
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    """Numbers of all sizes, the least and the largest among them."""
    ends = np.iinfo(dtype)
    made = np.random.default_rng(5).integers(ends.min, ends.max, shape, dtype, endpoint=True)
    made.flat[:2] = ends.min, ends.max
    return made


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 7), (7, 3)), ((2, 1, 4, 6), (3, 6, 2)), ((9,), (9, 2)), ((2, 9), (9,)), ((2, 0), (0, 3))],
    ids=str,
)
def test_products_of_integers_wrap_around(
    dtype: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    if 0 in left:
        a, b = np.zeros(left, dtype), np.zeros(right, dtype)
    else:
        a, b = _numbers(dtype, *left), _numbers(dtype, *right)[..., ::-1]
    made = matrix_product(torch.from_numpy(a), torch.from_numpy(b.copy()))
    assert made.dtype == torch.from_numpy(a).dtype
    np.testing.assert_array_equal(made.numpy(), a @ b)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("equation", ["bij,bjk->bik", "...ij,...jk->...ik", "bij,bjk", "bij,bjk->"])
def test_sums_of_integers_wrap_around(dtype: str, equation: str) -> None:
    a, b = _numbers(dtype, 2, 3, 4), _numbers(dtype, 2, 4, 5)
    made = summed_product(equation, torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_array_equal(made.numpy(), np.einsum(equation, a, b))


def test_a_sum_that_is_too_long_is_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_products, "MOST_TERMS", 3)
    a, b = _numbers("int64", 2, 4), _numbers("int64", 4, 2)
    made = matrix_product(torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_array_equal(made.numpy(), a @ b)


def test_products_of_real_numbers_are_those_of_torch() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    assert torch.equal(matrix_product(a, b), a @ b)
    assert torch.equal(summed_product("ij,jk", a, b), torch.einsum("ij,jk", a, b))


NAN, INF = float("nan"), float("inf")
CASTS = {
    "int8": [(-1.9, -1), (200.0, -56), (NAN, 0)],
    "uint8": [(-1.9, 255), (300.5, 44), (INF, 0)],
    "int16": [(40000.0, -25536), (-INF, 0)],
    "uint16": [(-2.5, 65534), (70000.5, 4464), (NAN, 0)],
    "int32": [(-3.9, -3), (NAN, -(2**31)), (INF, -(2**31)), (-INF, -(2**31)), (3e9, -(2**31))],
    "uint32": [(-2.5, 2**32 - 2), (3e9, 3 * 10**9), (INF, 0)],
    "int64": [(-3.9, -3), (NAN, -(2**63)), (INF, -(2**63)), (2.0**60, 2**60)],
    "uint64": [(-2.5, 2**64 - 2), (2.0**63 + 2.0**41, 2**63 + 2**41), (NAN, 2**63), (INF, 0)],
    "bool": [(-0.5, True), (0.0, False), (NAN, True)],
    "float32": [(-0.5, -0.5), (INF, INF)],
}


@pytest.mark.parametrize("source", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASTS)
def test_a_cast_wraps_around(name: str, source: torch.dtype) -> None:
    given, wanted = zip(*CASTS[name], strict=True)
    x, dtype = torch.tensor(given, dtype=source), getattr(torch, name)
    made = in_dtype(x, dtype)
    assert made.dtype == dtype
    assert made.tolist() == list(wanted)
    ones = [torch.tensor(one, dtype=source).to(dtype).item() for one in given]  # not vectorised
    assert made.tolist() == ones


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16])
def test_a_cast_of_short_numbers_wraps_around(source: torch.dtype) -> None:
    x = torch.tensor([-3.0, NAN, INF, 2.5], dtype=source)
    assert in_dtype(x, torch.int32).tolist() == [-3, -(2**31), -(2**31), 2]
    assert in_dtype(x, torch.uint16).tolist() == [65533, 0, 0, 2]


def test_integers_are_cast_as_torch_does_it() -> None:
    x = torch.tensor([-1, 70000])
    assert in_dtype(x, torch.uint16).tolist() == x.to(torch.uint16).tolist()


def test_a_device_fills_a_tensor_by_itself() -> None:
    made = integer_tensor((3, 5), torch.int64, torch.device("meta"))
    assert (made.shape, made.dtype, made.device.type) == ((2,), torch.int64, "meta")
    assert integer_tensor((3, 5), torch.int64, torch.device("cpu")).tolist() == [3, 5]
