"""Messages between connected programs and the endpoint of an orchestrator: msgspec structs."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ...comm.decoding import guarded
from ...comm.serving.tensor_spec import TensorSpec
from ..config.published_model import PublishedModel
from ..replica.rank_status import Status
from ..requests.metrics import ModelMetrics
from ..requests.step_times import StepTimes

LONGEST_REQUEST = 1 << 20
"""Bytes of one message of a connected program: tensors are not in it."""

_MOST_DIMENSIONS = 64
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))]
_Name = Annotated[str, msgspec.Meta(max_length=1000)]
Shape = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=_MOST_DIMENSIONS)]


class Greeting(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """First message of a program: the version of its rankmesh."""

    release: _Name


class RoomWish(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Asks for memory of `size` bytes, which the program may write: it is answered by Room."""

    number: _Count
    size: _Count


class RoomReturn(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The program uses memory no more; `offsets` are those of Room."""

    offsets: list[_Count]


class SentRequest(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A request, whose inputs are in the memory at `offset`, one after the other.

    `timeout` is in seconds, None for no deadline. A version that is not `named` may be another one
    by now.
    """

    number: _Count
    model: _Name
    version: _Count
    named: bool
    offset: _Count
    shapes: Annotated[tuple[Shape, ...], msgspec.Meta(max_length=100_000)]
    timeout: float | None
    priority: int
    every_rank: bool


class Cancel(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The program waits no more for the answer of that number."""

    number: _Count


class Forget(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The program has no arrays of these answers any more."""

    numbers: list[_Count]


class StatusWish(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Asks for the status of all models."""

    number: _Count


class MetricsWish(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Asks for the metrics of all models in their current versions."""

    number: _Count


ProgramMessage: TypeAlias = (
    Greeting | RoomWish | RoomReturn | SentRequest | Cancel | Forget | StatusWish | MetricsWish
)


class VersionCard(msgspec.Struct, frozen=True):
    """One version of a model: its file, its inputs and outputs, the labels of its classes by
    output, and the seconds that its requests have (None: any).
    """

    version: int
    path: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    labels: dict[str, tuple[str, ...]]
    timeout: float | None
    published: PublishedModel | None = None
    """Its form for clients of a server; None: as its file has it."""


class ModelCard(msgspec.Struct, frozen=True):
    """One model: its name, the version that answers requests that name none, and all versions."""

    name: str
    current: int
    versions: tuple[VersionCard, ...]


class Welcome(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers a Greeting. The descriptor of the memory of tensors comes with it."""

    models: tuple[ModelCard, ...]


class Models(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The models are others now."""

    models: tuple[ModelCard, ...]


class Room(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Memory that the program may write until it returns it."""

    number: int
    offset: int
    size: int


class OutputPlace(msgspec.Struct, frozen=True, array_like=True):
    """One output: its name, numpy's name of its dtype, its shape, and where its first byte is."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Answered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The answer to a SentRequest: the outputs, or with `every_rank` those of each rank.

    Their memory stays until the program forgets the answer. `begun` is when ranks were given the
    request last, in seconds of the host's monotonic clock. `replica`, `together`, `attempts` and
    `steps` are as Request has them.
    """

    number: int
    outputs: list[list[OutputPlace]]
    begun: float | None = None
    replica: int = -1
    together: int = 0
    attempts: int = 0
    steps: tuple[StepTimes, ...] = ()


class Declined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The error of the message that had this number: the name of a class of comm/errors.py, its
    text, and the depth of a full queue. Number 0: the program is sent away.
    """

    number: int
    error: str
    text: str
    depth: int = 0


class StatusReply(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers a StatusWish."""

    number: int
    status: Status


class MetricsReply(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers a MetricsWish, by model."""

    number: int
    metrics: dict[str, ModelMetrics]


EndpointMessage: TypeAlias = (
    Welcome | Models | Room | Answered | Declined | StatusReply | MetricsReply
)
_ENCODER = msgspec.msgpack.Encoder()
_PROGRAM_DECODER: msgspec.msgpack.Decoder[ProgramMessage] = msgspec.msgpack.Decoder(ProgramMessage)
_ENDPOINT_DECODER: msgspec.msgpack.Decoder[EndpointMessage] = msgspec.msgpack.Decoder(
    EndpointMessage
)


def encode(message: ProgramMessage | EndpointMessage) -> bytes:
    """Encode a message."""
    return _ENCODER.encode(message)


decode_program = guarded(_PROGRAM_DECODER)
"""Decode a message of a program; raises msgspec.DecodeError, and nothing else, for other bytes."""

decode_endpoint = guarded(_ENDPOINT_DECODER)
"""Decode a message of the endpoint, likewise."""
