"""Decoding of messages from other processes: one kind of error for every sequence of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from .errors import RankFailed

T = TypeVar("T")
Data = bytes | bytearray | memoryview
_LONGEST_REASON = 200


def guarded(
    decoder: msgspec.msgpack.Decoder[T] | msgspec.json.Decoder[T],
) -> Callable[[Data], T]:
    """Wrap `decoder.decode`: it raises msgspec.DecodeError, and nothing else, for any bytes.

    The library itself raises more: RecursionError where an unknown field is nested too deep,
    UnicodeDecodeError, MemoryError. The text of the error is short and printable, fit for a log.
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


def decode_sent(data: Data, kind: type[T], sender: str) -> T:
    """Decode one message; RankFailed names the `sender` of what is another kind of message."""
    try:
        return guarded(msgspec.msgpack.Decoder(kind))(data)
    except msgspec.DecodeError as error:
        raise RankFailed(
            f"{sender} sent what is no {kind.__name__} ({error}): install the same version of "
            "rankmesh everywhere."
        ) from error


def decode_payloads(payloads: Iterable[bytes], kind: type[T]) -> list[T]:
    """Decode the payloads of an exchange, in rank order.

    RankFailed names a rank that sent another kind of message.
    """
    return [decode_sent(one, kind, f"rank {rank}") for rank, one in enumerate(payloads)]


def _reason(error: Exception) -> str:
    """The reason in a short text: that of an error may quote the message."""
    text = str(error)[:_LONGEST_REASON] or type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)
