"""Tensors in JSON: nested or flat lists of numbers as arrays, and arrays as flat lists."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import msgspec
import numpy as np

from .....comm.arrays import Array
from .....comm.errors import InputError
from .....comm.serving.string_tensor import strings_of
from ...catalog import TensorDescription
from ...steps import Steps
from .json_literals import encoded_numbers
from .json_numbers import DEEPEST, FLOATS, Span, count_of, numbers

_ELEMENTS: dict[str, type] = {
    "b": list[bool],
    "i": list[int],
    "u": list[int],
    "f": FLOATS,
    "V": FLOATS,  # bfloat16
    "O": list[str],
}
_LIST = ord("[")
LONG = 1 << 13
"""Elements of a list that are encoded in one call."""

LONGEST_TEXTS = 8 << 20
"""Bytes of a document with texts, which are decoded in one call."""


def array_of(tensor: TensorDescription, shape: tuple[int, ...], data: Span) -> Steps[Array]:
    """The array of an input that JSON holds; InputError where its elements do not fit.

    They are counted before any is made: a list has many times the bytes of its text.
    """
    kind = _ELEMENTS.get(tensor.dtype.kind)
    if kind is None:
        raise InputError(f"the input '{tensor.name}' cannot stand in JSON: send it in binary.")
    if data.text[data.start] != _LIST:
        raise InputError(f"the input '{tensor.name}': its `data` is no list.")
    try:
        found = yield from _elements(tensor, shape, data, kind)
    except (FloatingPointError, OverflowError):
        raise InputError(
            f"the input '{tensor.name}' has a number that is out of the range of {tensor.datatype}."
        ) from None
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise InputError(f"the input '{tensor.name}': {error}") from None
    return found.reshape(shape)


def _elements(
    tensor: TensorDescription, shape: tuple[int, ...], data: Span, kind: Any
) -> Steps[Array]:
    count = prod(shape)
    if (tensor.strings or not count) and data.end - data.start > LONGEST_TEXTS:
        raise ValueError(f"its `data` has more than {LONGEST_TEXTS} bytes and no numbers.")
    has = (yield from count_of(data)) if count and not tensor.strings else _count_of_texts(data)
    if has != count:
        raise InputError(
            f"the input '{tensor.name}' has {has} elements, expected {count} for the shape "
            f"{list(shape)}."
        )
    if count and not tensor.strings:
        return (yield from numbers(data, count, kind, tensor.dtype))
    flat = _flat(data.text[data.start : data.end], kind)
    return strings_of(flat) if tensor.strings else np.array(flat, tensor.dtype)


def _count_of_texts(data: Span) -> int:
    """How many texts a list has; of one without texts, how many numbers."""
    text = data.text[data.start : data.end].replace(rb"\\", b"")
    quotes = text.count(b'"') - text.count(rb"\"")
    if quotes or not text.translate(None, b"[], \t\r\n"):
        return quotes // 2
    return text.count(b",") + 1


def _flat(data: bytes, kind: Any) -> list[Any]:
    try:
        return msgspec.json.decode(data, type=kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        nested = msgspec.json.decode(data)
        return msgspec.convert(list(_leaves(nested, DEEPEST)), kind)  # type: ignore[no-any-return]


def _leaves(nested: list[Any], deep: int) -> Iterator[object]:
    if not deep:
        raise InputError(f"the lists of a tensor are nested more than {DEEPEST} deep.")
    for one in nested:
        if isinstance(one, list):
            yield from _leaves(one, deep - 1)
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


def list_parts(name: str, array: Array, strict: bool) -> Steps[list[bytes]]:
    """The list of all elements in parts, likewise."""
    flat = array.reshape(-1)
    parts = [b"["]
    for at in range(0, flat.size, LONG):
        text = msgspec.json.encode(elements_of(name, flat[at : at + LONG], strict))
        parts += (b"," if at else b"", text[1:-1])
        yield
    return [*parts, b"]"]


def _texts(name: str, array: Array) -> list[object]:
    try:
        return [one.decode() for one in array.reshape(-1).tolist()]
    except UnicodeDecodeError:
        raise InputError(
            f"the tensor '{name}' has bytes that are no text in UTF-8, which JSON cannot hold: use "
            "its binary form (binary_data)."
        ) from None
