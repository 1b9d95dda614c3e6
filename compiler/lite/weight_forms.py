"""Weight forms: quantised weights of .ms files, and their packed data.

The forms are those that MindSpore Lite's WeightDecoder and HuffmanDecode read. Bits are taken from
the lowest to the highest of each word where they are packed, and from the highest where they are
indexed or sparse. Those compressed by FSE are those of entropy_coding.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..element_types.value_types import TensorType
from .entropy_coding import entropy_decoded
from .flatbuffer import Table

_END = 256  # the code behind the last byte of Huffman-coded data
_MOST = 1 << 27  # elements that one packed tensor may have
_LONGEST = 256  # bits of a Huffman code of one of 257 symbols
_ELEMENTS = {np.dtype(np.int8): 8, np.dtype(np.int16): 16}


@dataclass(frozen=True, slots=True)
class WeightQuantization:
    """How stored numbers become floats: (number - zero) * scale + offset, each for the whole tensor
    or for one channel each; or by a table of `clusters`, whose first is of number -128.
    """

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    offsets: tuple[float, ...]
    clusters: tuple[float, ...] = ()

    @classmethod
    def of(cls, record: Table, name: str, constant: bool) -> WeightQuantization | None:
        """That of a tensor's record; None for one that is not quantised. Constants say whether."""
        clusters = tuple(float(one) for one in record["quantClusters"])
        params = record["quantParams"]
        if not params or (constant and not params[0]["inited"]):
            return cls((), (), (), clusters) if clusters else None
        corrected = len(params) > 1  # one scale for the whole tensor has no corrections
        scales = tuple(one["scale"] * (_spread(one) if corrected else 1.0) for one in params)
        offsets = tuple(one["meanCorr"] if corrected else 0.0 for one in params)
        if not np.isfinite([*scales, *offsets]).all():
            raise ValueError(f"tensor '{name}' has scales that are no numbers")
        return cls(scales, tuple(one["zeroPoint"] for one in params), offsets, clusters)


def _spread(param: Table) -> float:
    """The correction of a scale; MindSpore Lite takes those outside of 0 to 10 for 1."""
    spread = float(param["varCorr"])
    return spread if 0 <= spread <= 10 else 1.0


def is_packed(record: Table, kind: TensorType, length: int) -> bool:
    """Whether a constant's data have another form than its elements one after another."""
    if record["weightQuantCompressType"] != "NONE" or record["enableHuffmanCode"]:
        return True
    params = record["quantParams"]
    if not params or kind.dtype not in _ELEMENTS or length == kind.nbytes:
        return False
    bits: int = params[0]["numBits"]
    return 1 <= bits < 16 and bits != 8


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A constant whose elements are packed. `form` is one of MindSpore's words, or HUFFMAN."""

    form: str
    type: TensorType
    bits: int
    zeros: tuple[int, ...]
    data: memoryview

    @classmethod
    def of(cls, record: Table, kind: TensorType, data: memoryview) -> PackedWeight:
        """That of a tensor's record."""
        form = record["weightQuantCompressType"]
        if form == "NONE":
            form = "HUFFMAN" if record["enableHuffmanCode"] else "BITPACKING"
        params = record["quantParams"]
        bits = params[0]["numBits"] if params else 8
        return cls(form, kind, bits, tuple(one["zeroPoint"] for one in params), data)

    def unpacked(self, name: str) -> NDArray[Any]:
        """The elements; ValueError names the tensor and what is wrong with its data."""
        size = prod(self.type.shape or ())
        if not 1 <= self.bits <= 16 or size > min(1024 * max(1, len(self.data)), _MOST):
            raise ValueError(
                f"tensor '{name}' of {size} elements has {self.bits} bits for each, and "
                f"{len(self.data)} bytes"
            )
        found = _FORMS[self.form](self, size)
        if found.size != size:
            raise ValueError(f"tensor '{name}' has {found.size} packed elements, expected {size}")
        return found.astype(self.type.dtype).reshape(self.type.shape or ())


class _Bits:
    """Numbers read from bits, the highest first."""

    def __init__(self, data: memoryview) -> None:
        self._bits = np.unpackbits(np.frombuffer(data, np.uint8))
        self._at = 0

    def numbers(self, count: int, width: int) -> NDArray[np.int64]:
        """The next `count` numbers of `width` bits each."""
        end = self._at + count * width
        if end > self._bits.size or width > 62:
            raise ValueError(f"the packed data end at bit {self._bits.size}, expected {end}")
        bits = self._bits[self._at : end].reshape(count, width)
        self._at = end
        return _numbers(bits[:, ::-1])

    def number(self, width: int) -> int:
        """The next number."""
        return int(self.numbers(1, width)[0])


def _numbers(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The number in each row of bits, the lowest first; one column at a time, as bits are many."""
    found = np.zeros(len(bits), np.int64)
    for place in range(bits.shape[1]):
        found |= bits[:, place].astype(np.int64) << place
    return found


def _bit_packed(weight: PackedWeight, size: int) -> NDArray[Any]:
    """Numbers of less bits than a word, one behind the other, the lowest bit first."""
    bits = np.unpackbits(np.frombuffer(weight.data, np.uint8), bitorder="little")
    missing = -bits.size % weight.bits
    bits = np.pad(bits, (0, missing)).reshape(-1, weight.bits)[:size]
    return _numbers(bits) - (1 << (weight.bits - 1))


def _uniques(bits: _Bits, width: int) -> tuple[NDArray[np.int64], int]:
    """The table of the different numbers, and the bits of an index into it."""
    count = bits.number(width) or 1 << width
    return bits.numbers(count, width) - (1 << (width - 1)), ceil(log2(count)) if count > 1 else 0


def _indexed(weight: PackedWeight, size: int) -> NDArray[Any]:
    bits = _Bits(weight.data)
    uniques, width = _uniques(bits, weight.bits)
    return _chosen(uniques, bits.numbers(size, width))


def _sparse(weight: PackedWeight, size: int) -> NDArray[Any]:
    """Zero points but for some numbers, each with the gap before it."""
    bits = _Bits(weight.data)
    gap_width, count = bits.number(8), bits.number(32)
    if count > size:
        raise ValueError(f"a sparse tensor of {size} elements has {count} numbers")
    uniques, width = _uniques(bits, weight.bits)
    values = _chosen(uniques, bits.numbers(count, width))
    places = np.cumsum(bits.numbers(count, gap_width) + 1) - 1
    if count and places[-1] >= size:
        raise ValueError(f"a sparse tensor of {size} elements has one at {places[-1]}")
    zeros = np.asarray(weight.zeros or (0,), np.int64)
    found = np.repeat(zeros, max(1, size // zeros.size))[:size]
    found = np.pad(found, (0, size - found.size), mode="edge")
    found[places] = values
    return found


def _chosen(uniques: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    if indices.size and indices.max() >= uniques.size:
        raise ValueError(f"a packed tensor has {uniques.size} different numbers, and needs more")
    return uniques[indices]


def _huffman(weight: PackedWeight, size: int) -> NDArray[Any]:
    """Bytes by codes, which the data begin with: `KEYS#CODES#` and the coded bytes."""
    parts = bytes(weight.data).split(b"#", 2)
    if len(parts) < 3:
        raise ValueError("Huffman-coded data have no table of codes before them")
    keys, codes, coded = parts[0].split(), parts[1].split(), parts[2]
    if len(keys) != len(codes) or max(map(len, codes), default=0) > _LONGEST:
        raise ValueError(f"a Huffman table has no code of up to {_LONGEST} bits for each number")
    table = {code.decode(): int(key) for key, code in zip(keys, codes, strict=True)}
    itemsize = weight.type.dtype.itemsize
    decoded = bytes(_decoded(table, coded, size * itemsize))
    return np.frombuffer(decoded.ljust(size * itemsize, b"\0"), weight.type.dtype)


def _decoded(table: dict[str, int], coded: bytes, most: int) -> Iterator[int]:
    code = ""
    longest = max(map(len, table), default=0)
    for bit in np.unpackbits(np.frombuffer(coded, np.uint8)):
        code += "1" if bit else "0"
        if len(code) > longest:
            raise ValueError("Huffman-coded data have a code that their table lacks")
        if code in table:
            if table[code] == _END or not most:
                return
            most -= 1
            yield table[code] & 0xFF
            code = ""


def _entropy_coded(weight: PackedWeight, size: int) -> NDArray[Any]:
    """Elements by their values, which are floats, or integers of a quantised tensor."""
    kind = "<i4" if weight.form == "FSE_INT" else "<f4"
    return entropy_decoded(weight.data, size, np.dtype(kind))


_FORMS = {
    "BITPACKING": _bit_packed,
    "FSE": _entropy_coded,
    "FSE_INFER": _entropy_coded,
    "FSE_INT": _entropy_coded,
    "INDEXING": _indexed,
    "SPARSE": _sparse,
    "HUFFMAN": _huffman,
}
