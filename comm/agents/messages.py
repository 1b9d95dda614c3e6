"""Messages between an orchestrator and an agent: starts of ranks, orders, and answers.

The ranks of a replica run on one host or several, each time as another incarnation. Numbers of
incarnations are the orchestrator's, and never used again on a connection. A host has a part of the
ranks, which keep their numbers. Offsets of one host's memory mean
nothing on another: tensors travel behind the messages, and each end has places of its own for them.
Only an agent on the orchestrator's own host shares its memory, and no tensors travel.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..decoding import guarded
from ..job.placement import RankSpec
from ..job_memory.progress import ProgressSnapshot
from ..transfer.messages import Chunk, Held, Lacking, Offer, Want, Withheld
from .order_messages import OrderAnswer, OrderDone, RankFault, ToRank
from .weight_messages import AskRank, DropWeights, PutWeight, RankAnswered, WeightLacking


class PrepareIncarnation(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Lay out memory for `ranks`, those on this host, and for `depth` orders under way."""

    incarnation: int
    ranks: list[RankSpec]
    depth: int


class StartRank(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Start the process of a rank; `job` is a ServeJob, whose descriptors the agent fills in.

    Its collectives have `timeout` seconds. `keys` are those of the job's staged weights, in order.
    """

    incarnation: int
    rank: int
    job: bytes
    timeout: float
    keys: list[int] = []


class EndIncarnation(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """End the processes of an incarnation: at once, or as they have been `asked` to end."""

    incarnation: int
    asked: bool


class WriteStacks(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Have a rank write the stacks of its threads into its output."""

    incarnation: int
    rank: int


class ExchangeAnswer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The payloads of all ranks of an incarnation on several hosts, in rank order."""

    incarnation: int
    payloads: list[bytes]


class OfferModel(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The files of an incarnation's ranks, which start once the agent has them.

    `folder` is where they lie on the orchestrator's host, and maybe on the agent's.
    """

    incarnation: int
    offer: Offer
    folder: str


class ModelAnswer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The answer to a wish of an incarnation."""

    incarnation: int
    answer: Chunk | Withheld


ToAgent: TypeAlias = (
    PrepareIncarnation
    | OfferModel
    | ModelAnswer
    | StartRank
    | EndIncarnation
    | AskRank
    | PutWeight
    | DropWeights
    | WriteStacks
    | ExchangeAnswer
    | ToRank
)


class RankStarted(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The process of a rank runs; `place` is its device as errors name it."""

    incarnation: int
    rank: int
    pid: int
    place: str


class RankExchange(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank's payload for an exchange of all ranks, some of which are on other hosts."""

    incarnation: int
    rank: int
    payload: bytes


class RankReported(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank takes orders; `report` is a ModelReport."""

    incarnation: int
    rank: int
    report: bytes


class RankError(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The error with which a rank ends; `error` is the name of a class of comm/errors.py."""

    incarnation: int
    rank: int
    error: str
    text: str


class RankEnded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The process of a rank has ended; `epitaph` is the end of a sentence about it."""

    incarnation: int
    rank: int
    epitaph: str


class RankLine(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A line that a rank has written to a stream (1: standard output, 2: standard error)."""

    incarnation: int
    rank: int
    stream: int
    text: str


class RankProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a rank; `stopped`: a signal has stopped it."""

    rank: int
    progress: ProgressSnapshot
    stopped: bool


class IncarnationProgress(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The progress of some `ranks` at `now` (nanoseconds of the agent's monotonic clock).

    `culprit` is the rank for which the collectives of the incarnation were ended, -1 without one.
    """

    incarnation: int
    culprit: int
    now: int
    ranks: list[RankProgress]


class IncarnationEnded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The processes of an incarnation have ended, but for those that do not end although killed."""

    incarnation: int
    stuck: list[int]


class ModelWish(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A wish of an incarnation for the offered files; the last one says whether it has all."""

    incarnation: int
    wish: Want | Held | Lacking


FromIncarnation: TypeAlias = (
    RankStarted
    | RankExchange
    | RankReported
    | RankAnswered
    | RankError
    | RankFault
    | RankEnded
    | RankLine
    | IncarnationProgress
    | OrderAnswer
    | IncarnationEnded
)
FromAgent: TypeAlias = FromIncarnation | OrderDone | ModelWish | WeightLacking

_ENCODER = msgspec.msgpack.Encoder()
_TO_AGENT: msgspec.msgpack.Decoder[ToAgent] = msgspec.msgpack.Decoder(ToAgent)
_FROM_AGENT: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


def encode_to_agent(message: ToAgent) -> bytes:
    """Encode a message of an orchestrator to an agent or rank."""
    return _ENCODER.encode(message)


def encode_from_agent(message: FromAgent) -> bytes:
    """Encode a message of an agent or rank."""
    return _ENCODER.encode(message)


decode_to_agent = guarded(_TO_AGENT)
decode_from_agent = guarded(_FROM_AGENT)
