"""Tuples, order tokens and Python scalars: what moves values about without computing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..mindir.graph import TensorType
from .builder import Builder, Tensor, Value
from .registry import lowers

_INT64 = np.dtype(np.int64)


@lowers("Depend", "Load", "TensorMove")
def identity(b: Builder, value: Value, *order: Value) -> Value:
    """The first input; the others only order it behind side effects."""
    return value


@lowers("MakeTuple", "make_list", "MakeList")
def make_tuple(b: Builder, *items: Value) -> Value:
    """A tuple of the inputs."""
    return tuple(items)


@lowers("TupleGetItem", "ListGetItem")
def tuple_get_item(b: Builder, items: Value, index: int) -> Value:
    """One item of a tuple."""
    if not isinstance(items, tuple):
        raise ValueError(f"item {index} is taken of something that is no tuple")
    if not -len(items) <= index < len(items):
        raise ValueError(f"item {index} is taken of a tuple of {len(items)}")
    return items[index]


@lowers("Shape")
def shape(b: Builder, x: Value) -> Value:
    """The shape as a tuple of Python ints, each a constant where the dimension is known."""
    if isinstance(x, np.ndarray):
        return tuple(x.shape)
    dims: tuple[int, ...] = x.shape if x.shape is not None else _unknown_rank(x)
    if -1 not in dims:
        return dims
    whole = b.op("Shape", x, type=TensorType(_INT64, (len(dims),)))
    return tuple(_dimension(b, whole, axis) if dim < 0 else dim for axis, dim in enumerate(dims))


def _unknown_rank(x: Tensor) -> tuple[int, ...]:
    raise ValueError(f"the rank of {x.name} is unknown, so its shape is no tuple of known length")


def _dimension(b: Builder, whole: Tensor, axis: int) -> Tensor:
    dim = b.op("Gather", whole, np.asarray(axis, np.int64), axis=0, type=TensorType(_INT64, ()))
    return Tensor(dim.name, _INT64, (), scalar=True)


@lowers("ScalarToTensor", "TensorToScalar", "ScalarCast")
def scalar_to_tensor(b: Builder, value: Value, dtype: Any = None) -> Value:
    """A Python number as a 0-d tensor, and back; `dtype` is a MindSpore type id."""
    if isinstance(value, Tensor):
        target = value.dtype if dtype is None else _dtype(dtype)
        return b.cast(value, target)
    if isinstance(value, np.ndarray):
        return value.item() if dtype is None else value.astype(_dtype(dtype))
    return value if dtype is None else np.asarray(value, _dtype(dtype))


def _dtype(dtype: Any) -> np.dtype[np.generic]:
    return dtype if isinstance(dtype, np.dtype) else dtypes.from_type_id(dtype)
