"""Open dimensions: finds their names in a model's inputs, and chooses sizes for them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx_ir as ir

from ....comm.errors import InputError

_USUAL = {"batch": 1, "seq": 128, "past": 128, "len": 128, "length": 128}
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}
_ODD = ((2, 3, 5, 7, 11, 13, 17, 19, 23), (3, 29, 31, 37, 41, 43, 47, 53, 59))
"""Sizes of the open dimensions in the further choices."""


def open_dimensions(model: ir.Model) -> list[str]:
    """The names of the inputs' open dimensions, without those that are sums of others."""
    found: dict[str, None] = {}
    for value in model.graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if not isinstance(dim, int):
                name = str(dim.value) if dim.value is not None else f"{value.name}.{axis}"
                for one in _names(name):
                    found[one] = None
    return list(found)


def _names(text: str) -> list[str]:
    """The names in an expression such as `past + sequence`; the text itself, if it is none."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return [text]
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return names if _computed(tree, dict.fromkeys(names, 1)) is not None else [text]


def _computed(tree: ast.AST, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression of names, integers and + - * //; None where it is another."""
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.BinOp) and type(tree.op) in _ARITHMETIC:
        left, right = _computed(tree.left, sizes), _computed(tree.right, sizes)
        if left is not None and right is not None:
            return _ARITHMETIC[type(tree.op)](left, right)
    return None


def size_of(text: str, sizes: Mapping[str, int]) -> int:
    """The size of an open dimension, whose name may be an expression of others."""
    if text in sizes:
        return sizes[text]
    found = _computed(ast.parse(text, mode="eval").body, sizes)
    if found is None:
        raise InputError(f"The dimension '{text}' is no sum or product of {', '.join(sizes)}.")
    return found


def choices(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes for all open dimensions: the usual ones, then odd ones that differ from each other."""
    yield {name: sizes.get(name, _usual(name)) for name in names}
    if names:
        for odd in _ODD:
            yield {name: odd[index % len(odd)] for index, name in enumerate(names)}


def _usual(name: str) -> int:
    """A plausible size for a dimension of this name."""
    return next((size for part, size in _USUAL.items() if part in name.lower()), 4)
