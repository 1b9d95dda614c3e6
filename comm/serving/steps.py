"""Steps of a decoder: the order of one step, and where a rank writes what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..request_memory.tensor_arena import TensorArena, aligned

Int32 = NDArray[np.int32]


class DecoderJob(msgspec.Struct, frozen=True):
    """How a rank decodes: at most `sequences` at once of at most `capacity` tokens (0: as many as
    the model has been made for), in queries of at most `rows` rows. Their keys and values lie in a
    file, `size` bytes for each rank. `file` is its descriptor. `config` is the path of the
    decoder's configuration.
    """

    config: str
    sequences: int
    capacity: int
    rows: int
    file: int
    size: int


class DecoderReport(msgspec.Struct, frozen=True):
    """Report of a rank that decodes.

    It holds `sequences` of at most `capacity` tokens; a sequence takes `bytes_per_token` bytes for
    each token of the capacity. It gives the logits of `columns` tokens of the `vocabulary`, from
    `first` on. `inexact` says why the bits of a token's logits depend on other sequences; "" where
    they do not.
    """

    sequences: int
    capacity: int
    bytes_per_token: int
    vocabulary: int
    first: int
    columns: int
    end_tokens: tuple[int, ...]
    inexact: str = ""


class DecoderStep(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False):
    """One step: the new tokens of some sequences.

    All sequences that have a slot are in it, also those that rest: without new tokens. Each holds
    `lengths` tokens before the step. `counts` are those that come new, in `tokens`, sequence after
    sequence in the order of slots. `wanted` are the new tokens after which the next one is asked
    for, by their places in `tokens`; of the first `logits` of them all logits are wanted. All are
    little-endian int32. Two steps that follow each other have different `parity`. `rooms` are the
    offsets in the arena at which each rank writes its DecodedTokens.
    """

    slots: bytes
    lengths: bytes
    counts: bytes
    tokens: bytes
    wanted: bytes
    logits: int
    parity: int
    rooms: tuple[int, ...]

    @staticmethod
    def of(
        slots: list[int],
        lengths: list[int],
        tokens: list[list[int]],
        wanted: list[int],
        logits: int,
        parity: int,
        rooms: tuple[int, ...],
    ) -> DecoderStep:
        """A step of lists of numbers."""
        counts = [len(one) for one in tokens]
        flat = [token for one in tokens for token in one]
        return DecoderStep(
            _packed(slots),
            _packed(lengths),
            _packed(counts),
            _packed(flat),
            _packed(wanted),
            logits,
            parity,
            rooms,
        )


def _packed(numbers: list[int]) -> bytes:
    return np.array(numbers, "<i4").tobytes()


def numbers_of(packed: bytes) -> Int32:
    """The numbers of a field of DecoderStep."""
    return np.frombuffer(packed, "<i4")


@dataclass(frozen=True, slots=True)
class DecodedTokens:
    """Results of one rank: of each wanted token the best next one and its logit, and the logits of
    the first ones, `[logits, columns]`.
    """

    tokens: Int32
    best: NDArray[np.float32]
    logits: NDArray[np.float32]

    @staticmethod
    def size(wanted: int, logits: int, columns: int) -> int:
        """The bytes that the results of a step need."""
        return 2 * aligned(4 * wanted) + aligned(4 * logits * columns)

    @classmethod
    def at(
        cls, arena: TensorArena, offset: int, wanted: int, logits: int, columns: int
    ) -> DecodedTokens:
        """The results at a place of the arena."""
        second, third = offset + aligned(4 * wanted), offset + 2 * aligned(4 * wanted)
        return cls(
            _view(arena, offset, np.dtype(np.int32), (wanted,)),
            _view(arena, second, np.dtype(np.float32), (wanted,)),
            _view(arena, third, np.dtype(np.float32), (logits, columns)),
        )


def _view(arena: TensorArena, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    return arena.view(offset, dtype, shape, 4 * int(np.prod(shape)))
