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
from ..serving.orders import Answer, OutputBuffer, Run, Stop, Switch
from ..transfer.messages import Chunk, Held, Lacking, Offer, Want, Withheld
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
    order: Run | Switch | Stop


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
    | RunOrder
    | OtherOrder
    | GrantRoom
    | ReleaseOrder
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


class RankFault(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank did what no rank does in order; `text` is the end of a sentence about it."""

    incarnation: int
    rank: int
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
    """Encode a message of an orchestrator."""
    return _ENCODER.encode(message)


def encode_from_agent(message: FromAgent) -> bytes:
    """Encode a message of an agent."""
    return _ENCODER.encode(message)


decode_to_agent = guarded(_TO_AGENT)
decode_from_agent = guarded(_FROM_AGENT)
