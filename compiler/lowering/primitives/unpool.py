"""Unpooling: elements put back where they were the largest of their windows, zeros elsewhere."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import Builder, OnnxTensor, Value, dims, integers, lowers, spatial
from .gather import index
from .scatter import scattered


@lowers("MaxUnpool2D", "MaxUnpool3D")
def max_unpool(
    b: Builder,
    x: Value,
    argmax: Value,
    *,
    ksize: Value,
    strides: Value,
    pads: Value = 0,
    output_shape: Value = (),
) -> Value:
    """Zeros with the elements of x at their places in each plane or volume, of NCHW or NCDHW."""
    tensor = b.tensor(x)
    found = dims(b, tensor)
    outer, inner = found[:2], found[2:]
    kernel, steps, around = (
        spatial(value, len(inner), "a window argument") for value in (ksize, strides, pads)
    )
    sizes: tuple[Value, ...] = integers(output_shape, "output_shape")[-len(inner) :]
    if not sizes:
        sizes = tuple(
            b.op("Add", b.op("Mul", b.op("Sub", b.tensor(size), 1), step), k - 2 * pad)
            for size, k, step, pad in zip(inner, kernel, steps, around, strict=True)
        )
    whole = b.op("ReduceProd", b.ints(sizes), keepdims=0)
    zeros = b.op("Expand", np.zeros((), tensor.dtype), b.ints((*outer, whole)))
    flat = (0, 0, -1)
    places, values = b.op("Reshape", index(b, argmax), flat), b.op("Reshape", tensor, flat)
    filled = scattered(b, "ScatterElements", zeros, places, values, "none", axis=2)
    return b.op("Reshape", filled, b.ints((*outer, *sizes)))


@lowers("MaxUnpool2DExt")
def max_unpool_ext(
    b: Builder,
    input: Value,
    indices: Value,
    kernel_size: Value,
    stride: Value = None,
    padding: Value = 0,
    output_size: Value = None,
) -> Value:
    """MaxUnpool2D by newer names, of one image too."""
    x, ids = b.tensor(input), b.tensor(indices)
    batch = x.rank == 4
    found = max_unpool(
        b,
        x if batch else _as_batch(b, x),
        ids if batch else _as_batch(b, ids),
        ksize=kernel_size,
        strides=kernel_size if stride is None else stride,
        pads=padding,
        output_shape=() if output_size is None else output_size,
    )
    return found if batch else b.op("Squeeze", found, (0,))


def _as_batch(b: Builder, tensor: OnnxTensor) -> OnnxTensor:
    """A batch of one."""
    kind = TensorType(tensor.dtype, (1, *(tensor.shape or ())))
    return b.op("Unsqueeze", tensor, (0,), type=kind)
