"""Scattering: tensors with some elements or slices replaced by others, or combined with them."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import (
    FLOAT32,
    INT32,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    dims,
    filled_like,
    integer,
    integers,
    lowers,
    lowers_each,
    where,
)
from .gather import index

_TENSOR_SCATTERS = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterSub": "sub",
    "TensorScatterMul": "mul",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
}
_REDUCTIONS = {0: "none", 1: "add"}


class Along(TypedDict, total=False):
    """The ONNX attribute of ScatterElements."""

    axis: int


def scattered(
    b: Builder,
    op_type: str,
    x: OnnxTensor,
    indices: OnnxTensor,
    updates: OnnxTensor,
    reduction: str,
    axis: int | None = None,
) -> OnnxTensor:
    """ScatterND, or ScatterElements along an axis.

    Half precision is combined in float32, as onnxruntime has no kernel for it.
    """
    half = is_float(x.dtype) and x.dtype.itemsize == 2
    wide = FLOAT32 if reduction != "none" and half else x.dtype
    along: Along = {} if axis is None else {"axis": axis}
    inputs = b.cast(x, wide), indices, b.cast(updates, wide)
    return b.cast(b.op(op_type, *inputs, reduction=reduction, **along), x.dtype)


def _scatter_nd(
    b: Builder, x: OnnxTensor, indices: Value, updates: Value, reduction: str
) -> OnnxTensor:
    places = b.cast(b.tensor(indices), INT64)
    return scattered(b, "ScatterND", x, places, as_dtype(b, updates, x.dtype), reduction)


@lowers_each("reduction", _TENSOR_SCATTERS)
def tensor_scatter(
    b: Builder, input_x: Value, indices: Value, updates: Value, *, reduction: str
) -> Value:
    """x with the updates in place of the slices that the indices name, or combined with them."""
    x = b.tensor(input_x)
    values = as_dtype(b, updates, x.dtype)
    if reduction == "sub":
        return _scatter_nd(b, x, indices, b.op("Neg", values), "add")
    return _scatter_nd(b, x, indices, values, reduction)


@lowers("TensorScatterDiv")
def scatter_div(b: Builder, input_x: Value, indices: Value, updates: Value) -> Value:
    """x, with elements divided by the product of all their updates."""
    x = b.tensor(input_x)
    wide = x.dtype if is_float(x.dtype) else INT64
    product = _scatter_nd(b, filled_like(b, 1, x, wide), indices, updates, "mul")
    return b.cast(b.op("Div", b.cast(x, wide), product), x.dtype)


@lowers("ScatterNd")
def scatter_nd(b: Builder, indices: Value, updates: Value, shape: Value) -> Value:
    """Zeros of a shape, with the updates added at the indices; of truth values, 'or'."""
    values = b.tensor(updates)
    wide = INT32 if values.dtype == np.bool_ else values.dtype
    zeros = b.op("Expand", np.zeros((), wide), b.cast(b.tensor(shape), INT64))
    return b.cast(_scatter_nd(b, zeros, indices, values, "add"), values.dtype)


@lowers("TensorScatterElements")
def scatter_along(
    b: Builder,
    data: Value,
    indices: Value,
    updates: Value,
    axis: Value = 0,
    reduction: Value = "none",
) -> OnnxTensor:
    """data with one element along the axis replaced (none, 0), or added to (add, 1), per index."""
    how = _REDUCTIONS.get(reduction, reduction)
    if how not in ("none", "add"):
        raise ValueError(f"the reduction {how} is not supported")
    x = b.tensor(data)
    places, values = index(b, indices), as_dtype(b, updates, x.dtype)
    return scattered(b, "ScatterElements", x, places, values, how, integer(axis, "the axis"))


@lowers("Scatter")
def scatter(
    b: Builder, input: Value, dim: Value, index_: Value, src: Value, reduce: Value = "none"
) -> Value:
    """input with one element along dim replaced, or added to, per index."""
    return scatter_along(b, input, index_, src, dim, reduce)


@lowers("ScatterValue")
def scatter_value(
    b: Builder, input: Value, dim: Value, index_: Value, src: Value, reduce: Value = "none"
) -> Value:
    """Scatter of one number."""
    x, ids = b.tensor(input), index(b, index_)
    values = b.op("Expand", as_dtype(b, src, x.dtype), b.op("Shape", ids))
    return scatter_along(b, x, ids, values, dim, reduce)


@lowers("ScatterAddExt")
def scatter_add(b: Builder, input: Value, dim: Value, index_: Value, src: Value) -> Value:
    """input with src added to one element along dim per index."""
    return scatter_along(b, input, index_, src, dim, "add")


@lowers_each("negative", {"InplaceAdd": False, "InplaceSub": True})
def rows_added(b: Builder, x: Value, input_v: Value, *, indices: Value, negative: bool) -> Value:
    """x with the rows of v added to, or taken from, those that the indices name.

    x itself stays as it is: unlike their names, these primitives do not write in place.
    """
    tensor = b.tensor(x)
    values = as_dtype(b, input_v, tensor.dtype)
    values = b.op("Neg", values) if negative else values
    rows = np.asarray(integers(indices, "the indices"), np.int64)
    return index_add_ext(b, tensor, 0, rows, values)


@lowers("InplaceUpdateV2")
def rows_replaced(b: Builder, x: Value, indices: Value, v: Value) -> Value:
    """x with the rows of v in place of those that the indices name."""
    rows = b.op("Reshape", index(b, b.tensor(indices)), (-1, 1))
    return _scatter_nd(b, b.tensor(x), rows, v, "none")


@lowers("IndexAdd")
def index_add(b: Builder, x: Value, indices: Value, y: Value, *, axis: int = 0) -> Value:
    """x with the slices of y added to those that the indices name."""
    return index_add_ext(b, x, axis, indices, y)


@lowers("IndexAddExt")
def index_add_ext(
    b: Builder, input: Value, dim: Value, index_: Value, source: Value, alpha: Value = 1
) -> Value:
    """input with alpha times the slices of source added to those that the indices name."""
    x, at = b.tensor(input), integer(dim, "dim")
    values = as_dtype(b, source, x.dtype)
    ids, shape = index(b, index_), b.op("Shape", values)
    ids = b.op("Expand", b.op("Reshape", ids, _line(x, at)), shape)
    values = values if alpha == 1 else b.op("Mul", values, as_dtype(b, alpha, x.dtype))
    return scatter_along(b, x, ids, values, at, "add")


@lowers("IndexFill", "IndexFillScalar", "IndexFillTensor")
def index_fill(b: Builder, x: Value, dim: Value, index_: Value, value: Value) -> Value:
    """x with one value in the slices that the indices name."""
    x, at = b.tensor(x), integer(dim, "dim")
    marks = b.op("Expand", np.zeros((), np.int32), b.ints((dims(b, x)[at],)))
    ids = b.op("Reshape", index(b, index_), (-1,))
    marked = b.op("ScatterElements", marks, ids, filled_like(b, 1, ids, INT32), axis=0)
    return where(b, b.op("Reshape", marked, _line(x, at)), value, x, x.dtype)


def _line(x: OnnxTensor, axis: int) -> tuple[int, ...]:
    """The shape of a vector along an axis of x."""
    return tuple(-1 if at == axis % x.rank else 1 for at in range(x.rank))
