"""Einsum: a product of two tensors whose axes have letters, as a product of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("Einsum")
def einsum(e: Expander, *values: ir.Value, equation: str) -> ir.Value:
    """Of one or two tensors, without repeated letters in one of them.

    The letters of both, of one alone, and those that are summed become the axes of a MatMul of
    stacks: [both, left, summed] times [both, summed, right].
    """
    terms, result = _terms(equation.replace(" ", ""), [e.rank(one) for one in values])
    if any(len(set(one)) < len(one) for one in (*terms, result)):
        raise ValueError(f"the equation '{equation}' repeats a letter in one tensor")
    if len(values) == 1:
        kept, value = _summed(e, values[0], terms[0], result)
        return _ordered(e, value, kept, result)
    if len(values) != 2:
        raise ValueError("products of more than two tensors are not supported")
    return _product(e, values, terms, result)


def _terms(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each tensor, and of the result; an ellipsis becomes capital letters."""
    given, arrow, result = equation.partition("->")
    terms = given.split(",")
    letters = "".join(terms).replace(".", "")
    if not arrow:
        single = sorted(one for one in set(letters) if letters.count(one) == 1)
        result = ("..." if "..." in given else "") + "".join(single)
    free = [one for one in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if one not in letters]
    most = max(
        [rank - len(one) + 3 for one, rank in zip(terms, ranks, strict=True) if "..." in one] or [0]
    )
    dots = "".join(free[:most])

    def whole(term: str, count: int) -> str:
        return term.replace("...", dots[most - count :])

    counts = [rank - len(one) + 3 for one, rank in zip(terms, ranks, strict=True)]
    named = [whole(one, count) for one, count in zip(terms, counts, strict=True)]
    return named, whole(result, most)


def _summed(e: Expander, value: ir.Value, term: str, kept: str) -> tuple[str, ir.Value]:
    """A tensor without the letters that nothing else has."""
    alone = [axis for axis, letter in enumerate(term) if letter not in kept]
    if not alone:
        return term, value
    left = "".join(letter for letter in term if letter in kept)
    return left, e.op("ReduceSum", value, e.constant(alone), keepdims=0)


def _ordered(e: Expander, value: ir.Value, term: str, order: str) -> ir.Value:
    if term == order:
        return value
    return e.op("Transpose", value, perm=[term.index(letter) for letter in order])


def _product(
    e: Expander, values: Sequence[ir.Value], terms: Sequence[str], result: str
) -> ir.Value:
    (a, left), (b, right) = (
        _summed(e, value, term, result + other)
        for value, term, other in zip(values, terms, reversed(terms), strict=True)
    )
    both = "".join(one for one in a if one in b and one in result)
    summed = "".join(one for one in a if one in b and one not in result)
    rows = "".join(one for one in a if one not in b)
    columns = "".join(one for one in b if one not in a)
    sizes = [_sizes(e, value, term) for value, term in ((left, a), (right, b))]
    first = _stacked(e, _ordered(e, left, a, both + rows + summed), sizes[0], both, rows, summed)
    second = _stacked(
        e, _ordered(e, right, b, both + summed + columns), sizes[1], both, summed, columns
    )
    found = e.op("MatMul", first, second)
    shape = [_size(e, sizes, one) for one in both + rows + columns]
    whole = e.op("Concat", *shape, axis=0) if shape else e.constant([])
    return _ordered(e, e.op("Reshape", found, whole), both + rows + columns, result)


def _sizes(e: Expander, value: ir.Value, term: str) -> dict[str, ir.Value]:
    """The size of each letter, as a tensor of one number."""
    shape = e.op("Shape", value)
    return {
        letter: e.op("Gather", shape, e.constant([axis]), axis=0)
        for axis, letter in enumerate(term)
    }


def _size(e: Expander, sizes: Sequence[dict[str, ir.Value]], letter: str) -> ir.Value:
    """The size of a letter in the result: of an ellipsis, one side may have 1."""
    found = [one[letter] for one in sizes if letter in one]
    return found[0] if len(found) == 1 else e.op("Max", *found)


def _stacked(
    e: Expander, value: ir.Value, sizes: dict[str, ir.Value], both: str, first: str, second: str
) -> ir.Value:
    """The axes of `both`, then two: all of `first`, and all of `second`."""
    parts = [sizes[one] for one in both]
    for group in (first, second):
        number = e.constant([1])
        for one in group:
            number = e.op("Mul", number, sizes[one])
        parts.append(number)
    return e.op("Reshape", value, e.op("Concat", *parts, axis=0))
