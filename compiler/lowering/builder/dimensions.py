"""Dimensions of tensors: known numbers and run-time sizes, and tensors in other shapes."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import INT64
from ...element_types.value_types import TensorType
from .builder import Builder, OnnxTensor, Value

END = np.iinfo(np.int64).max
"""The end of an axis as a bound of a slice."""
START = np.iinfo(np.int64).min
"""The start of an axis as a bound of a slice in reverse."""


def dims(b: Builder, x: OnnxTensor) -> tuple[Value, ...]:
    """The sizes of x: ints where known, else 0-d tensors. ValueError for an unknown rank."""
    shape = x.shape
    if shape is None:
        raise ValueError(
            f"the rank of {x.name} is unknown, so its shape is no tuple of known length"
        )
    if -1 not in shape:
        return shape
    whole = b.op("Shape", x, type=TensorType(INT64, (len(shape),)))
    return tuple(_entry(b, whole, axis) if size < 0 else size for axis, size in enumerate(shape))


def _entry(b: Builder, shape: OnnxTensor, axis: int) -> OnnxTensor:
    """One entry of a shape tensor as a run-time number."""
    size = b.op("Gather", shape, np.asarray(axis, np.int64), axis=0, type=TensorType(INT64, ()))
    return OnnxTensor(size.name, INT64, (), scalar=True)


def times(b: Builder, size: Value, factor: int) -> Value:
    """A size times a factor, known now or at run time."""
    return size * factor if isinstance(size, int) else b.op("Mul", size, factor)


def product(b: Builder, sizes: tuple[Value, ...]) -> Value:
    """How many elements sizes make, known now or at run time."""
    if all(isinstance(size, int) for size in sizes):
        return int(np.prod(sizes))
    return b.op("ReduceProd", b.ints(sizes), keepdims=0)


def steps(b: Builder, count: Value) -> OnnxTensor:
    """0, 1, 2, ... up to before `count`, a number or a 0-d tensor, as a 1-d int64 tensor."""
    return b.op("Range", 0, count, 1, type=TensorType(INT64, (-1,)))


def reshape(b: Builder, x: OnnxTensor, target: Value) -> OnnxTensor:
    """x in another shape, a tuple of ints and run-time numbers or a tensor; 0 is a size of 0."""
    if isinstance(target, np.ndarray):
        target = tuple(target.reshape(-1).tolist())
    fixed = isinstance(target, tuple) and all(isinstance(size, int) for size in target)
    # onnxruntime's fusions expect no allowzero; only a shape of constants is known to need none.
    plain = fixed and 0 not in target
    if fixed and 0 in target and -1 in target:
        target = _without_unknown(b, target)
    kind = TensorType(x.dtype, tuple(target) if fixed else None)
    sizes = b.cast(b.tensor(target), INT64)
    if plain:
        return b.op("Reshape", x, sizes, type=kind)
    return b.op("Reshape", x, sizes, type=kind, allowzero=1)


def _without_unknown(b: Builder, target: tuple[int, ...]) -> tuple[int, ...]:
    """A target with 0 and -1, which ONNX refuses: the recorded shape, else 0 for -1."""
    kind = b.result_type
    if isinstance(kind, TensorType) and kind.shape and -1 not in kind.shape:
        return kind.shape
    return tuple(0 if size < 0 else size for size in target)


def flattened(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """x as one vector."""
    size = int(np.prod(x.shape)) if x.shape is not None and x.static else -1
    return b.op("Reshape", x, (-1,), type=TensorType(x.dtype, (size,)))


def filled_like(b: Builder, value: int, x: OnnxTensor, dtype: np.dtype[np.generic]) -> OnnxTensor:
    """A tensor of the shape of x in which each element is `value`."""
    return b.op("Expand", np.full((), value, dtype), b.op("Shape", x))
