"""Warm-up inputs: arrays of zeros, of random numbers or from a file, as a sample says."""

from __future__ import annotations

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import ModelError
from ...comm.host.regular_file import read_regular
from ...comm.serving.tensor_spec import dtype_named
from ...comm.serving.warmup import WarmupInput, WarmupSample


def arrays_of(sample: WarmupSample) -> dict[str, Array]:
    """The inputs of a sample by name. Raises ModelError where a file does not have them."""
    return {one.name: _array(sample, one) for one in sample.inputs}


def _array(sample: WarmupSample, one: WarmupInput) -> Array:
    dtype = dtype_named(one.dtype)
    if one.fill == "zeros":
        return np.zeros(one.shape, dtype)
    if one.fill == "file":
        return _of_file(sample, one)
    generator = np.random.default_rng(0)
    if dtype.kind in "biu":
        return generator.integers(0, 2, one.shape).astype(dtype)
    return generator.random(one.shape, np.float32).astype(dtype)


def _of_file(sample: WarmupSample, one: WarmupInput) -> Array:
    """The elements of a file, repeated for each row."""
    place = f"the warm-up sample '{sample.name}': the file {one.path} of the input '{one.name}'"
    size = int(np.prod(one.shape)) // one.rows * dtype_named(one.dtype).itemsize
    try:
        data = read_regular(one.path, size)
    except OSError as error:
        raise ModelError(f"{place} cannot be read: {error.strerror or error}.") from error
    if len(data) != size:
        raise ModelError(f"{place} has {len(data)} bytes, expected {size}.")
    return np.frombuffer(data * one.rows, dtype_named(one.dtype)).reshape(one.shape)
