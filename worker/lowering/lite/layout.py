"""Layout: images whose channels come last, as .ms files have them, in ONNX's order.

A transpose that follows its inverse is left out, and functions of single elements are computed
before the transpose: so chains of convolutions and pools keep ONNX's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...mindir.graph import TensorType
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
    found = b.made(x, "Transpose")
    source = found.inputs[0] if found else None
    if found and source:
        first = next(one.ints for one in found.node.attribute if one.name == "perm")
        if len(first) == len(order):
            whole = [first[axis] for axis in order]
            return source if whole == sorted(whole) else _transposed(b, source, whole)
    return _transposed(b, x, order)


def _transposed(b: Builder, x: OnnxTensor, order: Sequence[int]) -> OnnxTensor:
    shape = x.shape
    if shape is not None and len(shape) != len(order):
        raise ValueError(f"{len(shape)} dimensions are put in the order {list(order)}")
    kind = TensorType(x.dtype, shape and tuple(shape[axis] for axis in order))
    return b.op("Transpose", x, perm=list(order), type=kind)


def elementwise(
    b: Builder, x: OnnxTensor, function: Callable[[OnnxTensor], OnnxTensor]
) -> OnnxTensor:
    """A function of single elements, computed before a transpose of x."""
    found = b.made(x, "Transpose")
    source = found.inputs[0] if found else None
    if not found or not source or b.is_constant(source):
        return function(x)
    order = next(list(one.ints) for one in found.node.attribute if one.name == "perm")
    return _transposed(b, function(source), order)


def is_last(format: Value) -> bool:
    """Whether a format of .ms files has the channels at the end: some name that of the weight.

    Raises ValueError.
    """
    if format not in ("NHWC", "KHWC", "NCHW", "KCHW"):
        raise ValueError(f"the format {format} is not supported: expected NHWC or NCHW")
    return bool(format in ("NHWC", "KHWC"))
