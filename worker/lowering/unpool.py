"""Pooling undone: elements put back where they were the largest of their windows, zeros elsewhere."""

from __future__ import annotations

import numpy as np

from ..mindir.graph import TensorType
from .arguments import integers, spatial
from .builder import Builder, Tensor, Value
from .gather import index
from .registry import lowers
from .scatter import scattered
from .shape import dims


@lowers("MaxUnpool2D", "MaxUnpool3D")
def max_unpool(b: Builder, x: Value, argmax: Value, *, ksize: Value, strides: Value, pads: Value = 0,
               output_shape: Value = ()) -> Value:
    """Zeros with the elements of x at their places, counted through each plane or volume; NCHW or NCDHW."""
    tensor = b.tensor(x)
    found = dims(b, tensor)
    outer, inner = found[:2], found[2:]
    kernel, steps, around = (spatial(value, len(inner), "a window argument") for value in (ksize, strides, pads))
    given = integers(output_shape, "output_shape")
    sizes = given[-len(inner):] if given else tuple(
        b.op("Add", b.op("Mul", b.op("Sub", b.tensor(size), 1), step), k - 2 * pad)
        for size, k, step, pad in zip(inner, kernel, steps, around, strict=True))
    whole = b.op("ReduceProd", b.ints(sizes), keepdims=0)
    zeros = b.op("Expand", np.zeros((), tensor.dtype), b.ints((*outer, whole)))
    flat = (0, 0, -1)
    filled = scattered(b, "ScatterElements", zeros, b.op("Reshape", index(b, argmax), flat),
                       b.op("Reshape", tensor, flat), "none", axis=2)
    return b.op("Reshape", filled, b.ints((*outer, *sizes)))


@lowers("MaxUnpool2DExt")
def max_unpool_ext(b: Builder, input: Value, indices: Value, kernel_size: Value, stride: Value = None,
                   padding: Value = 0, output_size: Value = None) -> Value:
    """The same by newer names, of one image too."""
    x, ids = b.tensor(input), b.tensor(indices)
    steps, sizes = kernel_size if stride is None else stride, () if output_size is None else output_size
    if x.rank == 4:
        return max_unpool(b, x, ids, ksize=kernel_size, strides=steps, pads=padding, output_shape=sizes)
    found = max_unpool(b, _alone(b, x), _alone(b, ids), ksize=kernel_size, strides=steps, pads=padding,
                       output_shape=sizes)
    return b.op("Squeeze", found, (0,))


def _alone(b: Builder, tensor: Tensor) -> Tensor:
    """A batch of one."""
    batch: Tensor = b.op("Unsqueeze", tensor, (0,), type=TensorType(tensor.dtype, (1, *(tensor.shape or ()))))
    return batch
