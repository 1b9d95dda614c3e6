"""Decoding of what other processes say: the message, or one kind of error, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from .errors import RankFailed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Data = bytes | bytearray | memoryview
_LONGEST_REASON = 200


class Decoder(Protocol[T_co]):
    """What msgspec's decoders have in common."""

    def decode(self, buf: Data, /) -> T_co:
        """Bytes as what they encode."""


def guarded(decoder: Decoder[T]) -> Callable[[Data], T]:
    """`decoder.decode` that raises msgspec.DecodeError, and nothing else, for every sequence of bytes.

    The library itself raises more than that: RecursionError where a field that nobody knows is nested too deep,
    UnicodeDecodeError, MemoryError. The error's text is short and printable, fit for a log.
    """
    decode = decoder.decode

    def decoded(data: Data) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError as error:
            raise type(error)(_reason(error)) from None
        except (ValueError, RecursionError, OverflowError, MemoryError) as error:
            raise msgspec.DecodeError(_reason(error)) from None

    return decoded


def decode_payloads(payloads: Iterable[bytes], kind: type[T]) -> list[T]:
    """What each rank gave to an exchange, in rank order; RankFailed names the rank that gave something else."""
    decode, found = guarded(msgspec.msgpack.Decoder(kind)), []
    for rank, payload in enumerate(payloads):
        try:
            found.append(decode(payload))
        except msgspec.DecodeError as error:
            raise RankFailed(f"rank {rank} sent to the others what is no {kind.__name__} ({error}): install the same "
                             f"version of rankmesh for all ranks.") from error
    return found


def _reason(error: Exception) -> str:
    """An error's text may quote what was sent."""
    text = str(error)[:_LONGEST_REASON] or type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)
