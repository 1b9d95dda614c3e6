"""Given arrays: checks what callers give for one input of a model, and makes arrays of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from ...comm.serving.string_tensor import packed, packed_shape, strings_of
from ...comm.serving.tensor_spec import TensorSpec


def checked(path: str, spec: TensorSpec, dtype: np.dtype[Any], value: Any) -> Array:
    """The array of an input of the model at `path`, strings packed; InputError where it does not
    fit.
    """
    if spec.strings:
        return _packed(path, spec, value)
    array = value if type(value) is np.ndarray else array_of(spec, dtype, value)
    if array.dtype == dtype and array.shape == spec.shape:
        return array
    if array.dtype != dtype:
        raise InputError(
            f"{path}: the input '{spec.name}' is {array.dtype}, expected {spec.dtype}: convert it "
            "with astype."
        )
    _require_fit(path, spec, array.shape)
    return array


def handed(path: str, spec: TensorSpec, dtype: np.dtype[Any], value: Array) -> Array:
    """As `checked`, of an array in shared memory, where strings are packed."""
    if not spec.strings:
        return checked(path, spec, dtype, value)
    try:
        _require_fit(path, spec, packed_shape(value))
    except ValueError as error:
        raise _no_strings(path, spec, error) from None
    return value


def array_of(spec: TensorSpec, dtype: np.dtype[Any], value: Any) -> Array:
    """An array as it is, anything else as one of the input's dtype; InputError where that would
    lose something.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        kind = np.asarray(value).dtype.kind
        if kind not in "OUS" and not (kind in "fc" and dtype.kind in "biu"):
            return np.asarray(value, dtype)
        reason = f"got {value!r:.60}"
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error)
    raise InputError(
        f"the input '{spec.name}' cannot be made an array of {spec.dtype}: {reason}. Pass a "
        "numpy array "
        f"of this dtype."
    )


def _packed(path: str, spec: TensorSpec, value: Any) -> Array:
    """Strings of a caller, packed."""
    try:
        array = strings_of(value)
        _require_fit(path, spec, array.shape)
        return packed(array)
    except ValueError as error:
        raise _no_strings(path, spec, error) from None


def _require_fit(path: str, spec: TensorSpec, shape: tuple[int, ...]) -> None:
    if not spec.fits(shape):
        raise InputError(
            f"{path}: the input '{spec.name}' has the shape {list(shape)}, expected "
            f"{list(spec.shape or ())} (-1: any)."
        )


def _no_strings(path: str, spec: TensorSpec, error: ValueError) -> InputError:
    return InputError(f"{path}: the input '{spec.name}' is no tensor of strings: {error}.")
