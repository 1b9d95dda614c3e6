"""Layout: images whose channels come last, as .ms files have them, in ONNX's order.

A transpose that follows its inverse is left out, and functions of single elements are computed
before the transpose: so chains of convolutions and pools keep ONNX's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...element_types.value_types import TensorType
from ..builder import Builder, OnnxTensor, Value

_FIRST, _LAST = [0, 3, 1, 2], [0, 2, 3, 1]


def channels_first(b: Builder, x: Value) -> OnnxTensor:
    """[N, H, W, C] as [N, C, H, W]."""
    return permuted(b, b.tensor(x), _FIRST)


def channels_last(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """[N, C, H, W] as [N, H, W, C]."""
    return permuted(b, x, _LAST)


def permuted(b: Builder, x: OnnxTensor, order: Sequence[int]) -> OnnxTensor:
    """The axes in another order: of a transposed tensor, by one transpose or by none."""
    shape, source, whole = _permuted_shape(x, order), x, list(order)
    found = b.made(x, "Transpose")
    before = found.inputs[0] if found else None
    if found and before:
        first = next(one.ints for one in found.node.attribute if one.name == "perm")
        if len(first) == len(order):
            source, whole = before, [first[axis] for axis in order]
    if whole == sorted(whole):
        return replace(source, shape=shape or source.shape)
    return b.op("Transpose", source, perm=whole, type=TensorType(x.dtype, shape))


def _permuted_shape(x: OnnxTensor, order: Sequence[int]) -> tuple[int, ...] | None:
    if x.shape is not None and len(x.shape) != len(order):
        raise ValueError(f"{len(x.shape)} dimensions are put in the order {list(order)}")
    return x.shape and tuple(x.shape[axis] for axis in order)


def elementwise(
    b: Builder, x: OnnxTensor, function: Callable[[OnnxTensor], OnnxTensor]
) -> OnnxTensor:
    """A function of single elements, computed before a transpose of x."""
    found = b.made(x, "Transpose")
    source = found.inputs[0] if found else None
    if not found or not source or b.is_constant(source):
        return function(x)
    order = next(list(one.ints) for one in found.node.attribute if one.name == "perm")
    y = function(source)
    return b.op("Transpose", y, perm=order, type=TensorType(y.dtype, _permuted_shape(y, order)))


def is_last(format: Value) -> bool:
    """Whether a format of .ms files has the channels at the end: some name that of the weight.

    Raises ValueError.
    """
    if format not in ("NHWC", "KHWC", "NCHW", "KCHW"):
        raise ValueError(f"the format {format} is not supported: expected NHWC or NCHW")
    return bool(format in ("NHWC", "KHWC"))
