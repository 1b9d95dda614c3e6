"""Sorting: the largest elements, and where they are."""

from __future__ import annotations

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType, TupleType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("TopK")
def top(
    c: NodeConversion,
    x: MindirValue,
    k: MindirValue,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> list[MindirValue]:
    """The largest or the smallest elements along one axis, and their places. The primitive finds
    the largest along the last one.
    """
    place, last = axis % x.rank, x.rank - 1
    order = tuple(last if at == place else place if at == last else at for at in range(x.rank))
    source = x if largest else c.apply("Neg", x, type=x.type)
    turned = source if place == last else c.transposed(source, order)
    count = c.number(k, "k")
    shape = (*turned.shape[:-1], count)
    places = TensorType(dtypes.INT32, shape)
    kind = TupleType((TensorType(x.dtype, shape), places))
    found = c.apply("TopK", turned, count, type=kind, sorted=bool(sorted))
    values, indices = c.builder.item(found, 0), c.builder.item(found, 1)
    wide = TensorType(dtypes.INT64, shape)
    indices = c.apply("Cast", indices, dtypes.to_type_id(wide.dtype), type=wide)
    if place != last:
        values, indices = c.transposed(values, order), c.transposed(indices, order)
    return [values if largest else c.apply("Neg", values, type=values.type), indices]


@converts("ArgMax", primitive="Argmax")
@converts("ArgMin", primitive="Argmin")
def extreme(
    c: NodeConversion,
    x: MindirValue,
    *,
    axis: int = 0,
    keepdims: int = 1,
    select_last_index: int = 0,
    primitive: str,
) -> MindirValue:
    """The place of the first largest or smallest element."""
    if select_last_index:
        raise ValueError("the last of equal places is not supported")
    place = axis % x.rank
    shape = x.shape[:place] + x.shape[place + 1 :]
    flat = TensorType(np.dtype(np.int32), shape)
    found = c.apply(primitive, x, place, dtypes.to_type_id(flat.dtype), type=flat)
    wide = TensorType(dtypes.INT64, shape)
    cast = c.apply("Cast", found, dtypes.to_type_id(wide.dtype), type=wide)
    return c.apply("ExpandDims", cast, place) if keepdims else cast


@converts("CumSum")
def cumulated(
    c: NodeConversion, x: MindirValue, axis: MindirValue, *, exclusive: int = 0, reverse: int = 0
) -> MindirValue:
    """Sums of all elements up to each."""
    return c.apply("CumSum", x, c.number(axis, "axis") % x.rank, bool(exclusive), bool(reverse))


@converts("CumProd")
def multiplied(
    c: NodeConversion, x: MindirValue, axis: MindirValue, *, exclusive: int = 0, reverse: int = 0
) -> MindirValue:
    """Products of all elements up to each."""
    return c.apply("CumProd", x, c.number(axis, "axis") % x.rank, bool(exclusive), bool(reverse))


@converts("OneHot")
def one_hot(
    c: NodeConversion,
    indices: MindirValue,
    depth: MindirValue,
    values: MindirValue,
    *,
    axis: int = -1,
) -> MindirValue:
    """One value at the places of the indices, another elsewhere."""
    if values.constant is None:
        raise ValueError("'values' is computed by the model")
    off, on = np.asarray(values.constant)
    return c.apply(
        "OneHot", indices, c.number(depth, "depth"), np.asarray(on), np.asarray(off), axis
    )
