"""Patches of an image, as TensorFlow cuts them out."""

from __future__ import annotations

import numpy as np

from .arguments import known, moderate, padding, spatial
from .builder import Builder, Value
from .registry import lowers


@lowers("ExtractImagePatches")
def extract_image_patches(b: Builder, input_x: Value, ksizes: Value, strides: Value = 1, rates: Value = 1,
                          padding_: Value = 2) -> Value:
    """[batch, kernel * channels, rows, columns], the channels of one kernel element side by side.

    A convolution per channel whose kernels hold a single 1 each; its result comes kernel within channel.
    """
    x, size = b.tensor(input_x), spatial(ksizes, 2, "ksizes")
    dilations, channels, count = spatial(rates, 2, "the rates"), known(x, 1), size[0] * size[1]
    pads = padding(padding_)
    if "SAME_UPPER" in pads.values() and set(dilations) != {1}:
        raise ValueError(f"patches with the rates {dilations} and padding SAME are not supported")
    moderate(count * count * channels, "the number of elements of all kernels")
    ones = np.tile(np.eye(count, dtype=x.dtype).reshape(count, 1, *size), (channels, 1, 1, 1))
    found = b.op("Conv", x, ones, strides=spatial(strides, 2, "the strides"), dilations=dilations, group=channels,
                 **pads)
    order = np.arange(channels * count).reshape(channels, count).T.reshape(-1)
    return b.op("Gather", found, order, axis=1)
