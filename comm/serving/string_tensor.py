"""String tensors: arrays of sequences of bytes, and the form in which they lie in shared memory.

In memory a string tensor is one vector of bytes: the number of its dimensions (4 bytes), each size
(8 bytes), and its elements in order, each behind its length of 4 bytes. The elements are as the
Open Inference Protocol sends them. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from struct import Struct
from typing import Any

import numpy as np

from ..arrays import Array

_LENGTH = Struct("<I")
_LONGEST = (1 << 32) - 1
_MOST_DIMENSIONS = 32
_OBJECT = np.dtype(object)


def strings_of(value: Any) -> Array:
    """Texts or bytes that a caller gives, as an array of `bytes` objects.

    Texts become UTF-8. Raises ValueError for any other element.
    """
    given = np.asarray(value, _OBJECT)
    found = np.empty(given.size, _OBJECT)
    found[:] = [_bytes_of(one) for one in given.reshape(-1).tolist()]
    return found.reshape(given.shape)


def encode_elements(elements: Iterable[bytes]) -> bytes:
    """Elements as the protocol lays them out. Raises ValueError for one that is too long."""
    parts: list[bytes] = []
    for element in elements:
        if len(element) > _LONGEST:
            raise ValueError(f"an element has {len(element)} bytes, expected {_LONGEST} or fewer")
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def encoded_size(array: Array) -> int:
    """How many bytes `encode_elements` makes of an array of `bytes` objects."""
    return _LENGTH.size * array.size + sum(map(len, array.reshape(-1).tolist()))


def decode_elements(data: memoryview | bytes, shape: tuple[int, ...]) -> Array:
    """The elements of a string tensor of this shape, as an array of `bytes` objects.

    Raises ValueError where `data` are not just so many elements.
    """
    count = prod(shape)
    found = list(_elements(memoryview(data), count))
    array = np.empty(count, _OBJECT)
    array[:] = found
    return array.reshape(shape)


def packed(array: Array) -> Array:
    """An array of `bytes` objects in the form of shared memory: a vector of uint8."""
    elements = encode_elements(array.reshape(-1).tolist())
    return np.frombuffer(_head(array.shape) + elements, np.uint8)


def unpacked(vector: Array) -> Array:
    """The array that a vector of uint8 holds. Raises ValueError where it holds none."""
    data = vector.data
    shape, end = _shape(data)
    return decode_elements(data[end:], shape)


def packed_shape(vector: Array) -> tuple[int, ...]:
    """The shape of the array that a vector holds, by its beginning. Raises ValueError."""
    return _shape(vector.data)[0]


def reshaped(vector: Array, shape: tuple[int, ...]) -> Array:
    """A vector with the elements of another one, in another shape of as many elements."""
    elements = vector.data[_shape(vector.data)[1] :]
    return np.frombuffer(b"".join((_head(shape), elements)), np.uint8)


def joined_size(vectors: Sequence[Array]) -> int:
    """How many bytes `write_joined` writes."""
    parts = [_shape(one.data) for one in vectors]
    bodies = (len(one) - end for one, (_, end) in zip(vectors, parts, strict=True))
    return len(_head(parts[0][0])) + sum(bodies)


def write_joined(vectors: Sequence[Array], out: Array) -> None:
    """Write the tensors of these vectors as one, row under row, into a vector of `joined_size`.

    They differ in the size of dimension 0 only.
    """
    parts = [_shape(one.data) for one in vectors]
    shape = (sum(size[0] for size, _ in parts), *parts[0][0][1:])
    bodies = (one.data[end:] for one, (_, end) in zip(vectors, parts, strict=True))
    out[...] = np.frombuffer(b"".join((_head(shape), *bodies)), np.uint8)


def split_rows(vector: Array, rows: Sequence[int]) -> list[Array]:
    """Vectors of so many rows each, one after the other, which are all rows of a tensor.

    Raises ValueError where a vector holds no such tensor.
    """
    data = vector.data
    shape, at = _shape(data)
    width = prod(shape[1:])
    found = []
    for count in rows:
        end = _behind(data, at, count * width)
        head = _head((count, *shape[1:]))
        found.append(np.frombuffer(head + bytes(data[at:end]), np.uint8))
        at = end
    if at != len(data):
        raise ValueError(f"has {len(data) - at} bytes behind its {sum(rows)} rows")
    return found


def _behind(data: memoryview, at: int, count: int) -> int:
    """Where so many elements end that begin at `at`."""
    for position in range(count):
        if at + _LENGTH.size > len(data):
            raise ValueError(f"ends before element {position} of {count}")
        at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
    if at > len(data):
        raise ValueError(f"ends within the last of {count} elements")
    return at


def _bytes_of(element: object) -> bytes:
    if isinstance(element, bytes):
        return bytes(element)
    if isinstance(element, str):
        return element.encode()
    raise ValueError(f"got {element!r:.60}, expected a text or bytes")


def _head(shape: tuple[int, ...]) -> bytes:
    return Struct(f"<I{len(shape)}Q").pack(len(shape), *shape)


def _shape(data: memoryview) -> tuple[tuple[int, ...], int]:
    """The shape at the beginning, and where the elements begin."""
    if len(data) < _LENGTH.size:
        raise ValueError(f"has {len(data)} bytes, expected a number of dimensions")
    (rank,) = _LENGTH.unpack_from(data)
    sizes = Struct(f"<{min(rank, _MOST_DIMENSIONS)}Q")
    if rank > _MOST_DIMENSIONS or len(data) < _LENGTH.size + sizes.size:
        raise ValueError(f"has {rank} dimensions in {len(data)} bytes")
    return sizes.unpack_from(data, _LENGTH.size), _LENGTH.size + sizes.size


def _elements(data: memoryview, count: int) -> Iterator[bytes]:
    if count * _LENGTH.size > len(data):
        raise ValueError(f"has {len(data)} bytes, too few for {count} elements")
    at = 0
    for position in range(count):
        begin = at + _LENGTH.size
        end = begin + (_LENGTH.unpack_from(data, at)[0] if begin <= len(data) else 0)
        if begin > len(data) or end > len(data):
            raise ValueError(f"ends within element {position} of {count}")
        yield bytes(data[begin:end])
        at = end
    if at != len(data):
        raise ValueError(f"has {len(data) - at} bytes behind its {count} elements")
