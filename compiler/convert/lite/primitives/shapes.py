"""Shapes in .ms files: sizes are tensors of one dimension, known or computed by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....element_types import dtypes
from ....element_types.value_types import TensorType, TupleType
from ...mindir.values import MindirValue, ResultType
from .registry import numbers, translates

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes


@translates("Reshape")
def reshaped(b: LiteNodes, kind: ResultType, x: MindirValue, shape: MindirValue) -> MindirValue:
    """Other sizes."""
    sizes = shape if shape.constant is None else numbers(shape, "the shape")
    return b.node("Reshape", [x, sizes], kind)


@translates("FlattenExt")
def flattened(b: LiteNodes, kind: ResultType, x: MindirValue, *ends: MindirValue) -> MindirValue:
    """All axes but the first as one."""
    if [one.constant for one in ends] != [1, -1]:
        raise ValueError("only all axes from 1 on become one")
    return b.node("Flatten", [x], kind, axis=1)


@translates("Transpose")
def transposed(b: LiteNodes, kind: ResultType, x: MindirValue, order: MindirValue) -> MindirValue:
    """The axes in another order."""
    return b.node("Transpose", [x, numbers(order, "the order")], kind)


@translates("ExpandDims")
def expanded(b: LiteNodes, kind: ResultType, x: MindirValue, axis: MindirValue) -> MindirValue:
    """A new axis."""
    return b.node("Unsqueeze", [x], kind, axis=list(numbers(axis, "the axis")))


@translates("Squeeze")
def squeezed(b: LiteNodes, kind: ResultType, x: MindirValue, axes: MindirValue) -> MindirValue:
    """Without some axes."""
    return b.node("Squeeze", [x], kind, axis=list(numbers(axes, "the axes")))


@translates("BroadcastTo")
def broadcast(b: LiteNodes, kind: ResultType, x: MindirValue, shape: MindirValue) -> MindirValue:
    """To a shape, as an attribute where it is known."""
    if shape.constant is None:
        return b.node("BroadcastTo", [x, shape], kind)
    return b.node("BroadcastTo", [x], kind, shape=list(numbers(shape, "the shape")))


@translates("StandardNormal", primitive="RandomStandardNormal")
@translates("UniformReal", primitive="UniformReal")
def drawn(
    b: LiteNodes,
    kind: ResultType,
    shape: MindirValue,
    *,
    primitive: str,
    seed: int = 0,
    seed2: int = 0,
    side_effect_hidden: bool = True,
) -> MindirValue:
    """Random numbers in a shape."""
    sizes = shape if shape.constant is None else numbers(shape, "the shape")
    return b.node(primitive, [sizes], kind, seed=seed, seed2=seed2)


@translates("Tile")
def tiled(b: LiteNodes, kind: ResultType, x: MindirValue, times: MindirValue) -> MindirValue:
    """Copies along each axis."""
    return b.node("TileFusion", [x, times], kind)


@translates("Concat")
def joined(b: LiteNodes, kind: ResultType, items: MindirValue, axis: MindirValue) -> MindirValue:
    """Tensors along one axis."""
    return b.node("Concat", b.items(items), kind, axis=axis.constant)


@translates("Split")
def split(
    b: LiteNodes, kind: ResultType, x: MindirValue, axis: MindirValue, count: MindirValue
) -> MindirValue:
    """Equal parts along one axis."""
    assert isinstance(kind, TupleType) and kind.items
    given = {"axis": axis.constant, "output_num": count.constant}
    return b.several(b.nodes("Split", [x], kind.items, **given))


@translates("StridedSlice")
def strided(b: LiteNodes, kind: ResultType, x: MindirValue, *inputs: MindirValue) -> MindirValue:
    """A StridedSlice; its masks are attributes."""
    begin, end, steps, *masks = inputs
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    flags = {name: one.constant for name, one in zip(names, masks, strict=True)}
    return b.node("StridedSlice", [x, begin, end, steps], kind, **flags)


@translates("TensorShape")
def sizes(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """The sizes as a tensor: MindSpore Lite has them as int32."""
    small = b.node("Shape", [x], TensorType(dtypes.INT32, (x.rank,)))
    assert isinstance(kind, TensorType)
    if kind.dtype == dtypes.INT32:
        return small
    return b.node("Cast", [small, dtypes.to_type_id(kind.dtype)], kind)


@translates("Shape")
def size_tuple(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """The sizes as numbers."""
    found = b.node("Shape", [x], TensorType(dtypes.INT32, (x.rank,)))
    return MindirValue(found.key, kind)


@translates("TensorToTuple")
def as_numbers(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """The elements of a tensor of sizes."""
    small = b.node("Cast", [x, dtypes.to_type_id(dtypes.INT32)], TensorType(dtypes.INT32, x.shape))
    return MindirValue(small.key, kind)


@translates("TensorToScalar")
def as_number(b: LiteNodes, kind: ResultType, x: MindirValue) -> MindirValue:
    """The one element of a tensor."""
    return MindirValue(str(b.number(x)), kind)


@translates("Range")
def counted(b: LiteNodes, kind: ResultType, *bounds: MindirValue) -> MindirValue:
    """Numbers from a start to before an end."""
    assert isinstance(kind, TensorType)
    one = TensorType(kind.dtype, ())
    given: list[Any] = []
    for bound in bounds[:3]:
        if bound.constant is not None:
            given.append(np.asarray(bound.constant, kind.dtype))
        else:
            given.append(b.node("Cast", [bound, dtypes.to_type_id(kind.dtype)], one))
    return b.node("Range", given, kind, d_type=dtypes.to_type_id(kind.dtype))


@translates("FillScalar")
def filled(
    b: LiteNodes, kind: ResultType, shape: MindirValue, value: MindirValue, dtype: MindirValue
) -> MindirValue:
    """One number everywhere."""
    assert isinstance(kind, TensorType)
    return b.node("Fill", [np.asarray(value.constant, kind.dtype), shape], kind)


@translates("Triu", target="Triu")
def upper(
    b: LiteNodes, kind: ResultType, x: MindirValue, k: MindirValue, *, target: str
) -> MindirValue:
    """The upper triangle, from a diagonal on."""
    return b.node(target, [x, np.asarray(k.constant, np.int64)], kind)


@translates("Tril")
def lower(b: LiteNodes, kind: ResultType, x: MindirValue, *, diagonal: int) -> MindirValue:
    """The lower triangle, up to a diagonal."""
    return b.node("Tril", [x, np.asarray(diagonal, np.int64)], kind)
