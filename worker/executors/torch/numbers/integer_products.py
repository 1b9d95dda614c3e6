"""Integer products: products of integers on devices whose libraries multiply only real numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import torch

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_BITS = 16
"""Of a part of a number: products of two parts are less than 2**32."""
MOST_TERMS = 1 << 21
"""Of a sum that float64 has exactly: it is less than 2**53."""


def matrix_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As torch.matmul, for integers too."""
    if _is_real(a):
        return torch.matmul(a, b)
    return exact_product(torch.matmul, a, b, a.shape[-1])


def summed_product(equation: str, *inputs: torch.Tensor) -> torch.Tensor:
    """As torch.einsum, for two tensors of integers too."""
    if len(inputs) != 2 or _is_real(inputs[0]):
        made: torch.Tensor = torch.einsum(equation, *inputs)
        return made
    return exact_product(partial(torch.einsum, equation), *inputs, _terms(equation, inputs))


def _is_real(x: torch.Tensor) -> bool:
    return bool(x.dtype.is_floating_point or x.dtype.is_complex)


def _terms(equation: str, inputs: Sequence[torch.Tensor]) -> int:
    """The most terms of a sum: the sizes of the axes that are in no result, multiplied."""
    taken, _, result = equation.partition("->")
    summed: dict[str, int] = {}
    for labels, x in zip(taken.split(","), inputs, strict=True):
        before, _, behind = labels.partition("...")
        pairs = [
            *zip(before, x.shape, strict=False),
            *zip(behind[::-1], x.shape[::-1], strict=False),
        ]
        for label, size in pairs:
            if label not in result:
                summed[label] = max(size, summed.get(label, 1))
    return prod(summed.values())


def exact_product(product: Product, a: torch.Tensor, b: torch.Tensor, terms: int) -> torch.Tensor:
    """The product of two tensors of integers, a sum of so many terms; it wraps around.

    The numbers are taken apart into parts of 16 bits, whose products float64 has exactly. Longer
    sums than that the host computes.
    """
    if terms > MOST_TERMS:
        return product(a.cpu(), b.cpu()).to(a.device)
    left, right = _parts(a), _parts(b)
    total: torch.Tensor | None = None
    for at, one in enumerate(left):
        for shift, other in enumerate(right[: len(right) - at], at):
            made = product(one, other).to(torch.int64) << _BITS * shift
            total = made if total is None else total + made
    assert total is not None
    return total.to(a.dtype)


def _parts(x: torch.Tensor) -> list[torch.Tensor]:
    """The 16 bits of each number from the lowest on, in float64; the last ones have its sign.

    Of a number of 64 bits without a sign, the last ones may have one: sums wrap around.
    """
    wide, count = x.to(torch.int64), max(1, x.dtype.itemsize * 8 // _BITS)
    lower = [(wide >> _BITS * at) & ((1 << _BITS) - 1) for at in range(count - 1)]
    return [part.to(torch.float64) for part in (*lower, wide >> _BITS * (count - 1))]
