"""Open dimensions: finds their names in a model's inputs, and the sizes to compute shapes for.

Shapes are computed for three choices of sizes: plausible ones, odd ones of which no two sums are
the same, and the smallest. A model may not run with some of them: its positions end, or its
strides leave nothing of an image. Then other sizes are tried.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from ...comm.errors import InputError

_USUAL = {
    "batch": 1,
    "samples": 16000,
    "frames": 1024,
    "height": 224,
    "width": 224,
    "seq": 128,
    "past": 128,
    "len": 128,
}
_GRAINS = {"samples": 400, "frames": 16, "height": 32, "width": 32}
"""The smallest sizes that leave something behind strides, for dimensions of these names."""

_SUM_FREE = (3, 5, 11, 23, 47, 97, 197, 397, 797, 1597, 3203, 6421)
"""Each is larger than the sum of those before, so that all their sums differ."""

_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}
_PLUS = "_plus_"
_SCALES = (1.0, 0.5, 0.25, 0.125, 8.0, 64.0)

Sizes = Mapping[str, int]


def open_dimensions(model: ir.Model) -> list[str]:
    """The names of the inputs' open dimensions, without those that are sums of others."""
    found: dict[str, None] = {}
    for value in model.graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if not isinstance(dim, int):
                found.update(dict.fromkeys(names_in(dimension_name(value, axis))))
    return [name for name in found if not _is_named_sum(name, found)]


def _is_named_sum(name: str, names: Iterable[str]) -> bool:
    """Whether a name such as `past_plus_sequence` is made of other names."""
    parts = name.split(_PLUS)
    return len(parts) > 1 and set(parts) <= set(names)


def names_in(text: str) -> list[str]:
    """The names in an expression such as `past + sequence`; the text itself, if it is none."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return [text]
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return names if expression_of(tree, dict.fromkeys(names, 1)) is not None else [text]


def expression_of(tree: ast.AST, sizes: Sizes) -> int | None:
    """The value of an expression of names, integers and + - * //; None where it is another."""
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id)
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.BinOp) and type(tree.op) in _ARITHMETIC:
        left, right = expression_of(tree.left, sizes), expression_of(tree.right, sizes)
        if left is not None and right is not None:
            return _ARITHMETIC[type(tree.op)](left, right)
    return None


def expression(text: str, sizes: Sizes) -> int | None:
    """The value of a dimension's name, or of an expression of names; None where it is unknown."""
    if text in sizes:
        return sizes[text]
    try:
        return expression_of(ast.parse(text.replace(_PLUS, " + "), mode="eval").body, sizes)
    except (SyntaxError, ZeroDivisionError):
        return None


def size_of(text: str, sizes: Sizes) -> int:
    """The size of an open dimension, whose name may be an expression of others."""
    found = expression(text, sizes)
    if found is None:
        raise InputError(f"The dimension '{text}' is no sum or product of {', '.join(sizes)}.")
    return found


def set_dimensions(model: ir.Model, sizes: Sizes) -> None:
    """Give dimensions of the inputs and outputs of a model these sizes, wherever it names them."""
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.shape is not None and not value.shape.is_static():
            value.shape = ir.Shape(
                sizes.get(dimension_name(value, axis), dim) if not isinstance(dim, int) else dim
                for axis, dim in enumerate(value.shape)
            )


def dimension_name(value: ir.Value, axis: int) -> str:
    """The name of an open dimension; one without a name gets that of its input and axis."""
    assert value.shape is not None
    named = getattr(value.shape[axis], "value", None)
    return f"{value.name}.{axis}" if named is None else str(named)


def usual_sizes(names: Sequence[str], given: Sizes) -> Iterator[Sizes]:
    """Plausible sizes, then smaller and larger ones in case a model does not run with them."""
    plain = {name: _by_name(_USUAL, name, 4) for name in names}
    for scale in _SCALES if names else (1.0,):
        yield {name: given.get(name, max(1, round(plain[name] * scale))) for name in names}


def odd_sizes(names: Sequence[str], likely: Sizes) -> Iterator[Sizes]:
    """Sizes that differ, and whose sums differ, too; those of `likely` are as they are there."""
    numbers = _SUM_FREE if len(names) <= len(_SUM_FREE) else _primes(len(names))
    for sizes in _in_grains(dict(zip(names, numbers, strict=False))):
        yield {**sizes, **likely}


def least_sizes(names: Sequence[str]) -> Iterator[Sizes]:
    """The smallest sizes. A number that differs for them alone is not a constant."""
    yield from _in_grains(dict.fromkeys(names, 1))


def _in_grains(sizes: Sizes) -> Iterator[Sizes]:
    for scale in (1, 8, 64):
        yield {name: size * _by_name(_GRAINS, name, 1) * scale for name, size in sizes.items()}


def _by_name(table: Mapping[str, int], name: str, default: int) -> int:
    return next((size for part, size in table.items() if part in name.lower()), default)


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 3
    while len(found) < count:
        if all(number % one for one in found):
            found.append(number)
        number += 2
    return found
