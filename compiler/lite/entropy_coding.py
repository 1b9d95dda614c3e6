"""Entropy coding: weights of .ms files that are compressed by finite-state entropy (FSE).

The data are, in little endian, as MindSpore Lite's FSEDecoder reads them:

    2 bytes        n, how many different values the tensor has
    2 bytes        log, the logarithm of the number of states
    4 bytes        how many words of bits there are
    4 n bytes      how many states each value has; 2 bytes for each in files of early releases
    4 n bytes      the values, from the next multiple of 8 on: float32, or int32 for FSE_INT
    8 bytes each   the words of bits, from the next multiple of 8 on, the first bit the highest
    1 byte         how many bits of the last word count

FSE_INFER has places behind them at which a decoder may begin; one that decodes all needs none.
Elements are decoded from the last bit to the first, and from the last element to the first.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEAD = struct.Struct("<HHI")
_LOGS = range(4, 17)
_WORD = 64


def entropy_decoded(data: memoryview, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The `size` elements of a tensor whose values have this dtype; ValueError for wrong data."""
    if len(data) < _HEAD.size:
        raise ValueError(f"data compressed by FSE have {len(data)} bytes, expected a head of 8")
    count, log, words = _HEAD.unpack_from(data)
    if log not in _LOGS:
        raise ValueError(f"data compressed by FSE have 2^{log} states, expected 2^4 to 2^16")
    frequencies, at = _frequencies(data, count, 1 << log)
    values = _array(data, at, count, dtype)
    at = _aligned(at + 4 * count)
    text = _array(data, at, words, np.dtype("<u8")).astype(">u8").tobytes()
    last = int(_array(data, at + 8 * words, 1, np.dtype(np.uint8))[0])
    if not words or last > _WORD:
        raise ValueError(f"data compressed by FSE end with {last} bits of word {words}")
    symbols = _symbols(_States(frequencies, log), text, _WORD * (words - 1) + last, size)
    return values[symbols]


class _States:
    """The states of a decoder: each has a symbol, and is followed by one of the states from `base`
    on, which a number of `bits` bits chooses.
    """

    def __init__(self, frequencies: NDArray[np.int64], log: int) -> None:
        size = 1 << log
        self.log = log
        spread = np.arange(size) * ((size >> 1) + (size >> 3) + 3) % size
        symbols = np.empty(size, np.int64)
        symbols[spread] = np.repeat(np.arange(frequencies.size), frequencies)
        order = np.argsort(symbols, kind="stable")
        number = np.empty(size, np.int64)  # of a state among those of its symbol
        number[order] = np.arange(size) - np.repeat(
            np.cumsum(frequencies) - frequencies, frequencies
        )
        number += frequencies[symbols]
        bits = log - (np.frexp(number)[1] - 1)
        self.symbols: list[int] = symbols.tolist()
        self.bits: list[int] = bits.tolist()
        self.base: list[int] = ((number << bits) - size).tolist()


def _frequencies(data: memoryview, count: int, states: int) -> tuple[NDArray[np.int64], int]:
    """How many states each value has, and where the values begin."""
    for dtype in (np.dtype("<u4"), np.dtype("<u2")):
        end = _HEAD.size + count * dtype.itemsize
        if end <= len(data):
            found = np.frombuffer(data, dtype, count, _HEAD.size).astype(np.int64)
            if found.sum() == states and found.all():
                return found, _aligned(end)
    raise ValueError(f"data compressed by FSE have no {count} values for {states} states")


def _array(data: memoryview, at: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if at + count * dtype.itemsize > len(data):
        raise ValueError(
            f"data compressed by FSE have {len(data)} bytes, expected "
            f"{at + count * dtype.itemsize} and more"
        )
    return np.frombuffer(data, dtype, count, at)


def _aligned(at: int) -> int:
    return (at + 7) // 8 * 8


def _symbols(states: _States, text: bytes, end: int, size: int) -> NDArray[np.int64]:
    """The symbols that so many bits of a text stand for."""
    text += bytes(4)
    found = np.empty(size, np.int64)
    width, base = states.log, 0
    for place in range(size - 1, -1, -1):
        end -= width
        if end < 0:
            raise ValueError(f"data compressed by FSE end {place + 1} elements too early")
        byte = end >> 3
        window = int.from_bytes(text[byte : byte + 4], "big") >> (32 - width - (end & 7))
        state = base + (window & ((1 << width) - 1))
        found[place] = states.symbols[state]
        width, base = states.bits[state], states.base[state]
    return found
