"""Every message between a supervisor and its ranks: msgspec structs, encoded as MessagePack."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from .decoding import guarded
from .rank import Rank

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]


class Start(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank, first: who it is, and its job as the launcher encoded it."""

    rank: Rank
    job: bytes
    timeout: float  # seconds that collectives and exchanges wait; 0 = for ever


class Join(msgspec.Struct, frozen=True, tag=True):
    """Rank to hub, first: who comes; between hosts also to which job, and from where (host and process)."""

    rank: int
    world_size: int
    job: Name = ""
    where: Name = ""


class Joined(msgspec.Struct, frozen=True, tag=True):
    """Hub to rank: welcome; `where` is who serves. The arena's descriptor travels along on one host."""

    where: Name = ""


class Left(msgspec.Struct, frozen=True, tag=True):
    """Rank to hub, last: it ends in order. Hub to ranks: `rank` has."""

    rank: int


class Beat(msgspec.Struct, frozen=True, tag=True):
    """Hub to rank: nothing, sent to see whether the rank is still there."""


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: my part of an exchange of all ranks."""

    payload: bytes


class Exchanged(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank: everybody's part, in rank order."""

    payloads: list[bytes]


class Finished(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: the job is done; the launcher knows what the report means."""

    report: bytes


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Rank to orchestrator: orders may come; `report` is a Serving of comm/serving/orders.py."""

    report: bytes


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to rank: something beside its orders, a question of comm/serving/weights.py."""

    number: int
    question: bytes


class Told(msgspec.Struct, frozen=True, tag=True):
    """Rank to orchestrator: the reply to the question of that number."""

    number: int
    reply: bytes


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The job failed, told to or by a supervisor or hub; `error` is a class name of comm/errors.py.

    `rank` is who is to blame, where the text alone does not say it to the program.
    """

    error: str
    text: str
    rank: int | None = None


Message: TypeAlias = (
    Start | Join | Joined | Left | Beat | Exchange | Exchanged | Finished | Ready | Ask | Told | Failed)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_DECODE = guarded(_DECODER)


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """Bytes as the message they are; msgspec.DecodeError, and nothing else, where they are none."""
    return _DECODE(data)
