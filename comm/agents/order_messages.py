"""Messages of orders: from an orchestrator to an agent or a rank on another host, and back.

The one rank of a replica has them over a connection of its own, other ranks by their agents.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..decoding import guarded
from ..serving.orders import Answer, Order, OutputBuffer


class RunOrder(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Order `number` of an incarnation: a request, whose inputs follow, each with its shape.

    `rooms` are the bytes for the outputs of each rank on this host, `given` their positions.
    """

    incarnation: int
    number: int
    shapes: tuple[tuple[int, ...], ...]
    rooms: tuple[int, ...]
    given: tuple[tuple[int, ...], ...]


class OtherOrder(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Order `number` of an incarnation as its ranks get it: other weights, the end, or a request
    whose tensors lie in memory that the agent shares.
    """

    incarnation: int
    number: int
    order: Order


class GrantRoom(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank may use `room` for the outputs of an order, as it has asked. Its offset is of
    importance where the agent shares the memory.
    """

    incarnation: int
    number: int
    rank: int
    room: OutputBuffer


class ReleaseOrder(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All ranks are in step after an order that failed: let them go on."""

    incarnation: int
    number: int


ToRank: TypeAlias = RunOrder | OtherOrder | GrantRoom | ReleaseOrder


class RankFault(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank did what no rank does in order; `text` is the end of a sentence about it."""

    incarnation: int
    rank: int
    text: str


class GivenTensor(msgspec.Struct, frozen=True, array_like=True):
    """An output: its offset in the rank's room, or where an input is handed on, in that `input`."""

    offset: int
    shape: tuple[int, ...]
    input: int = -1


class OrderAnswer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank's answer to an order; the used bytes of its room follow.

    `answer` is without outputs, which are in `outputs`, unless they lie in memory that the agent
    shares; None for AS_ORDERED.
    """

    incarnation: int
    number: int
    rank: int
    answer: Answer | None
    outputs: list[GivenTensor] = []


class OrderDone(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All ranks of a host have answered an order AS_ORDERED. For each: how many bytes of its room
    follow.
    """

    incarnation: int
    number: int
    sizes: list[int]


FromRank: TypeAlias = OrderAnswer | OrderDone | RankFault

_TO_RANK: msgspec.msgpack.Decoder[ToRank] = msgspec.msgpack.Decoder(ToRank)
_FROM_RANK: msgspec.msgpack.Decoder[FromRank] = msgspec.msgpack.Decoder(FromRank)
decode_to_rank = guarded(_TO_RANK)
decode_from_rank = guarded(_FROM_RANK)
