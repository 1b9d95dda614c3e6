"""Every message between a supervisor and its ranks: msgspec structs, encoded as MessagePack."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from .rank import Rank

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]


class Start(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank, first: who it is, and its job as the launcher encoded it."""

    rank: Rank
    job: bytes
    timeout: float  # seconds that collectives and exchanges wait; 0 = for ever


class Join(msgspec.Struct, frozen=True, tag=True):
    """Rank to hub, first: who comes."""

    rank: int
    world_size: int


class Joined(msgspec.Struct, frozen=True, tag=True):
    """Hub to rank: welcome; `where` is who serves. The arena's descriptor travels along on one host."""

    where: Name = ""


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: my part of an exchange of all ranks."""

    payload: bytes


class Exchanged(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank: everybody's part, in rank order."""

    payloads: list[bytes]


class Finished(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: the job is done; the launcher knows what the report means."""

    report: bytes


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: the job failed here; `error` is a class name of comm/errors.py."""

    error: str
    text: str


Message: TypeAlias = Start | Join | Joined | Exchange | Exchanged | Finished | Failed
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """Bytes as the message they are; msgspec.DecodeError where they are none."""
    return _DECODER.decode(data)
