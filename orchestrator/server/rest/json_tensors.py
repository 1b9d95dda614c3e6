"""Tensors in JSON: nested or flat lists of numbers as arrays, and arrays as flat lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ....comm.serving.string_tensor import strings_of
from ..catalog import TensorDescription
from .json_literals import NUMBERS, encoded_numbers

_FLOATS = list[float]
_ELEMENTS: dict[str, type] = {
    "b": list[bool],
    "i": list[int],
    "u": list[int],
    "f": _FLOATS,
    "V": _FLOATS,  # bfloat16
    "O": list[str],
}
_DEEPEST = 32


def array_of(tensor: TensorDescription, shape: tuple[int, ...], data: msgspec.Raw) -> Array:
    """The array of an input that JSON holds; InputError where its elements do not fit."""
    count = int(np.prod(shape, dtype=object))
    kind = _ELEMENTS.get(tensor.dtype.kind)
    if kind is None:
        raise InputError(f"the input '{tensor.name}' cannot stand in JSON: send it in binary.")
    try:
        flat = _flat(data, kind)
        if len(flat) != count:
            raise InputError(
                f"the input '{tensor.name}' has {len(flat)} elements, expected {count} for the "
                f"shape {list(shape)}."
            )
        if tensor.strings:
            return strings_of(flat).reshape(shape)
        return _numbers(flat, tensor.dtype).reshape(shape)
    except (FloatingPointError, OverflowError):
        raise InputError(
            f"the input '{tensor.name}' has a number that is out of the range of {tensor.datatype}."
        ) from None
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise InputError(f"the input '{tensor.name}': {error}") from None


def _numbers(flat: list[Any], dtype: np.dtype[Any]) -> Array:
    """Numbers as an array. Raises FloatingPointError, OverflowError beyond its range."""
    with np.errstate(over="raise"):
        found: Array = np.array(flat, dtype)
    if dtype.kind == "V":  # numpy does not tell of bfloat16
        infinite = np.isinf(found.astype(np.float32))
        if infinite.any() and np.isfinite(np.array(flat)[infinite]).any():
            raise FloatingPointError
    return found


def _flat(data: msgspec.Raw, kind: Any) -> list[Any]:
    try:
        return msgspec.json.decode(data, type=kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        nested = msgspec.json.decode(data)
        if not isinstance(nested, list):
            raise
        found = list(_elements(nested, _DEEPEST))
        if kind is _FLOATS:
            found = [NUMBERS.get(one, one) if isinstance(one, str) else one for one in found]
        return msgspec.convert(found, kind)  # type: ignore[no-any-return]


def _elements(nested: list[Any], deep: int) -> Iterator[object]:
    if not deep:
        raise InputError(f"the lists of a tensor are nested more than {_DEEPEST} deep.")
    for one in nested:
        if isinstance(one, list):
            yield from _elements(one, deep - 1)
        else:
            yield one


def elements_of(name: str, array: Array, strict: bool = False) -> list[object] | msgspec.Raw:
    """All elements of a tensor in their order, for JSON. Where that is to be `strict`, msgspec
    writes null for NaN and infinities; else they are literals.

    Raises InputError for bytes that are not UTF-8.
    """
    if array.dtype.hasobject:
        return _texts(name, array)
    plain = array.astype(np.float32) if array.dtype.kind == "V" else array
    if plain.dtype.kind == "f" and not strict and not np.isfinite(plain).all():
        return encoded_numbers(plain)
    found: list[object] = plain.reshape(-1).tolist()
    return found


def _texts(name: str, array: Array) -> list[object]:
    try:
        return [one.decode() for one in array.reshape(-1).tolist()]
    except UnicodeDecodeError:
        raise InputError(
            f"the tensor '{name}' has bytes that are no text in UTF-8, which JSON cannot hold: use "
            "its binary form (binary_data)."
        ) from None
