"""Patches of an image, as TensorFlow cuts them out."""

from __future__ import annotations

import numpy as np

from .arguments import moderate, padding, spatial
from .builder import Builder, Value
from .registry import lowers
from .shape import dims


@lowers("ExtractImagePatches")
def extract_image_patches(b: Builder, input_x: Value, ksizes: Value, strides: Value = 1, rates: Value = 1,
                          padding_: Value = 2) -> Value:
    """[batch, kernel * channels, rows, columns], the channels of one kernel element side by side.

    A convolution of every channel by itself, with one kernel per element, each of a single 1.
    """
    x, (kh, kw) = b.tensor(input_x), spatial(ksizes, 2, "ksizes")
    dilations, pads, count = spatial(rates, 2, "the rates"), padding(padding_), kh * kw
    if "SAME_UPPER" in pads.values() and set(dilations) != {1}:
        raise ValueError(f"patches with the rates {dilations} and padding SAME are not supported")
    moderate(count * count, "the square of the kernel's size")
    batch, channels, *image = dims(b, x)
    planes = b.op("Reshape", x, b.tensor((-1, 1, *image)))
    ones = np.eye(count, dtype=x.dtype).reshape(count, 1, kh, kw)
    found = b.op("Conv", planes, ones, strides=spatial(strides, 2, "the strides"), dilations=dilations, **pads)
    apart = b.op("Reshape", found, b.tensor((batch, channels, count, -1)))
    sizes = b.op("Slice", b.op("Shape", found), (2,), (4,))
    depth = channels * count if isinstance(channels, int) else b.op("Mul", channels, count)
    target = b.op("Concat", b.tensor((batch, depth)), sizes, axis=0)
    return b.op("Reshape", b.op("Transpose", apart, perm=[0, 2, 1, 3]), target)
