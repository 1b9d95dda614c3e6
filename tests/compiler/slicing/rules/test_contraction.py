"""Every strategy of products of matrices gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 6), (6, 7)), ((2, 5, 6), (6, 7)), ((2, 4, 5, 6), (2, 4, 6, 7)), ((1, 5, 6), (4, 6, 7))],
)
@pytest.mark.parametrize("weights", [(), (1,)])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], weights: tuple[int, ...]) -> None:
    model = one_node("MatMul", [normal(*a), normal(*b)], weights)
    check_strategies(*model, ranks=(2, 3, 4), least=3)


@pytest.mark.parametrize(
    ("a", "b"), [((6,), (6, 5)), ((5, 6), (6,)), ((6,), (6,)), ((6,), (4, 6, 5)), ((4, 5, 6), (6,))]
)
def test_matmul_of_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check_strategies(*one_node("MatMul", [normal(*a), normal(*b)]), least=1)


def test_matmul_with_open_batch() -> None:
    model = one_node("MatMul", [normal(3, 5, 6), normal(6, 7)], (1,), open_axes={0: (0, 1)})
    check_strategies(*model, least=2)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("bias", [(7,), (1, 7), (5, 1), (5, 7), ()])
def test_gemm(transposed: tuple[int, int], bias: tuple[int, ...]) -> None:
    a = normal(6, 5) if transposed[0] else normal(5, 6)
    b = normal(7, 6) if transposed[1] else normal(6, 7)
    inputs = [a, b, normal(*bias)] if bias else [a, b]
    model = one_node(
        "Gemm", inputs, (1, 2), transA=transposed[0], transB=transposed[1], alpha=0.5, beta=2.0
    )
    check_strategies(*model, least=3)


@pytest.mark.parametrize(
    "equation",
    [
        "bhqd,bhkd->bhqk",
        "bij,bjk->bik",
        "ij,j->i",
        "abc,cd->ab",
        "...ij,...jk->...ik",
        "...ij->...ji",
        "b...d,cd->b...c",
        "bij,bjk",
        "iij->ij",
    ],
)
def test_einsum(equation: str) -> None:
    sizes = dict.fromkeys("abcdhijkq", 6) | {"b": 4, "h": 5}
    terms = equation.split("->")[0].split(",")
    terms = [term.replace("...", "bh") for term in terms]
    arrays = [normal(*(sizes[letter] for letter in term)) for term in terms]
    check_strategies(*one_node("Einsum", arrays, equation=equation), least=1)
