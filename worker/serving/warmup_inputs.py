"""Warm-up inputs: arrays of zeros, of random numbers or from a file, as a sample says."""

from __future__ import annotations

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import ModelError
from ...comm.host.regular_file import read_regular
from ...comm.serving.string_tensor import decode_elements, packed
from ...comm.serving.tensor_spec import STRINGS, TensorSpec, dtype_named
from ...comm.serving.warmup import WarmupInput, WarmupSample

_MOST_STRINGS = 64 << 20
"""Bytes of a file with strings."""


def arrays_of(sample: WarmupSample) -> dict[str, Array]:
    """The inputs of a sample by name. Raises ModelError where a file does not have them."""
    return {one.name: _array(sample, one) for one in sample.inputs}


def zeros(spec: TensorSpec) -> Array:
    """An input of a fixed shape: zeros, or empty strings."""
    if spec.strings:
        return packed(np.full(spec.shape or (), b"", object))
    return np.zeros(spec.shape or (), dtype_named(spec.dtype))


def _array(sample: WarmupSample, one: WarmupInput) -> Array:
    dtype = dtype_named(one.dtype)
    if one.fill == "file":
        return _of_file(sample, one)
    if one.fill == "zeros" or dtype.hasobject:
        return zeros(TensorSpec(one.name, one.dtype, one.shape))
    generator = np.random.default_rng(0)
    if dtype.kind in "biu":
        return generator.integers(0, 2, one.shape).astype(dtype)
    return generator.random(one.shape, np.float32).astype(dtype)


def _of_file(sample: WarmupSample, one: WarmupInput) -> Array:
    """The elements of a file, repeated for each row."""
    place = f"the warm-up sample '{sample.name}': the file {one.path} of the input '{one.name}'"
    if one.dtype == STRINGS:
        data = _read(place, one.path, _MOST_STRINGS)
        try:
            return packed(decode_elements(data * one.rows, one.shape))
        except ValueError as error:
            raise ModelError(f"{place} {error}.") from None
    size = int(np.prod(one.shape)) // one.rows * dtype_named(one.dtype).itemsize
    data = _read(place, one.path, size)
    if len(data) != size:
        raise ModelError(f"{place} has {len(data)} bytes, expected {size}.")
    return np.frombuffer(data * one.rows, dtype_named(one.dtype)).reshape(one.shape)


def _read(place: str, path: str, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        raise ModelError(f"{place} cannot be read: {error.strerror or error}.") from error
