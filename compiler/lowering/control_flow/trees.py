"""Trees of values: tuples and closures hold other values, every other value is a leaf."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...element_types.value_types import TensorType, TupleType, ValueType
from ..builder import Builder, OnnxTensor, Value


@dataclass(frozen=True, slots=True)
class Closure:
    """A function and its first arguments, not called yet."""

    function: str
    bound: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosureChoice:
    """Two closures, of which a condition of run time picks the first or the second."""

    condition: OnnxTensor
    yes: Value
    no: Value


def leaves(value: Value) -> list[Value]:
    """The leaves of a tree, in order."""
    return [leaf for item in _items(value) for leaf in leaves(item)] if _is_tree(value) else [value]


def rebuilt(value: Value, fresh: Iterator[Value]) -> Value:
    """The same tree with other leaves."""
    if isinstance(value, tuple):
        return tuple(rebuilt(item, fresh) for item in value)
    if isinstance(value, Closure):
        return Closure(value.function, rebuilt(value.bound, fresh))
    if isinstance(value, ClosureChoice):
        return ClosureChoice(*(rebuilt(item, fresh) for item in _items(value)))
    return next(fresh)


def outline(value: Value) -> Hashable:
    """The form of a tree: everything but the leaves."""
    if not _is_tree(value):
        return None
    head = value.function if isinstance(value, Closure) else type(value)
    return (head, *(outline(item) for item in _items(value)))


def leaf_types(value: Value, kind: ValueType | None) -> list[ValueType | None]:
    """The recorded type of each leaf; None where there is no record."""
    if not _is_tree(value):
        return [kind]
    items = _items(value)
    kinds = kind.items if isinstance(kind, TupleType) and isinstance(value, tuple) else None
    known = kinds if kinds is not None and len(kinds) == len(items) else (None,) * len(items)
    return [leaf for item, one in zip(items, known, strict=True) for leaf in leaf_types(item, one)]


def identity(leaf: Value) -> Hashable:
    """A key that is equal only for leaves that are the same value."""
    if isinstance(leaf, OnnxTensor):
        return leaf.name
    if isinstance(leaf, np.ndarray):
        return leaf.dtype, leaf.shape, leaf.tobytes()
    return type(leaf), repr(leaf)


def identical(a: Value, b: Value) -> bool:
    """Whether two leaves are known to be the same value."""
    return a is b or identity(a) == identity(b)


def as_tensor(b: Builder, leaf: Value, kind: ValueType | None) -> OnnxTensor:
    """A leaf as a tensor of its recorded type; ValueError for a value that no tensor holds."""
    dtype = getattr(kind, "dtype", None)
    if not isinstance(leaf, (OnnxTensor, np.ndarray, bool, int, float)):
        raise ValueError(
            f"{_described(leaf)} cannot be chosen or changed at run time, only tensors and numbers "
            f"can"
        )
    tensor = b.tensor(leaf, dtype)
    tensor = b.cast(tensor, dtype) if dtype else tensor
    if isinstance(kind, TensorType):
        return replace(tensor, shape=kind.shape, scalar=False)
    is_number = isinstance(leaf, (bool, int, float))
    return replace(tensor, shape=(), scalar=True) if is_number else tensor


def _described(leaf: Value) -> str:
    return "a value without data" if leaf is None else f"a {type(leaf).__name__.lower()} ({leaf})"


def _is_tree(value: Value) -> bool:
    return isinstance(value, (tuple, Closure, ClosureChoice))


def _items(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Closure):
        return value.bound
    return (
        (value.condition, value.yes, value.no) if isinstance(value, ClosureChoice) else tuple(value)
    )
