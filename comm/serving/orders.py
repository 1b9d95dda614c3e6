"""Orders and answers: encode and check the messages in a ring, as MessagePack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

import msgspec

from ..decoding import guarded
from ..transport.stream_invitation import StreamInvitation
from .python_function import PythonFunction
from .steps import DecoderJob, DecoderReport, DecoderStep
from .tensor_spec import TensorLayout, TensorSpec
from .warmup import WarmupSample
from .weights import StageWeights


class InvalidRankData(Exception):
    """`rank` wrote it; the text goes on behind the rank's name: "answered with ..."."""

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(text)
        self.rank = rank


_BUFFER_MARK = int.from_bytes(b"RANKROOM", "little")
KEPT_ORDERS = 256
"""How many orders a rank remembers; most are one of the last, as memory that comes back is used
again.
"""


class TensorRef(msgspec.Struct, frozen=True, array_like=True):
    """A tensor in the arena: the offset of its first byte, and its shape."""

    offset: int
    shape: tuple[int, ...]


class OutputBuffer(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of the arena that a rank may fill."""

    offset: int
    size: int

    @property
    def checksum(self) -> int:
        """A number that no stray write hits."""
        return self.offset ^ self.size ^ _BUFFER_MARK


class OutputPart(msgspec.Struct, frozen=True, array_like=True):
    """The outputs that one rank gives, by their positions in the model, and its room for them."""

    rank: int
    positions: tuple[int, ...]
    room: OutputBuffer


class Run(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False):
    """One request: its inputs in the model's order, and the parts of the ranks that give outputs.

    Equal is only the same object, so that looking up what has been made of an order costs no
    comparison of its parts: `decode_order` remembers its last ones.
    """

    inputs: tuple[TensorRef, ...]
    parts: tuple[OutputPart, ...]

    def part(self, rank: int) -> OutputPart:
        """The part of one rank, which may give nothing."""
        for part in self.parts:
            if part.rank == rank:
                return part
        return OutputPart(rank, (), OutputBuffer(0, 0))


class Switch(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Compute with the edition `number` of the weights, which was staged, from the next order
    on."""

    number: int


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """No more orders come: end in order."""


Order: TypeAlias = Run | Switch | DecoderStep | Stop


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """One rank's part of a request: the outputs it was to give; or how many bytes they need, or
    what went wrong.

    `error` is the name of a class of comm/errors.py. A rank that did not run it to its end says how
    many collectives it `entered`: other ranks may have counted on more. `trace` is a traceback.
    """

    outputs: list[TensorRef]
    needed: int = 0
    error: str = ""
    text: str = ""
    trace: str = ""
    ended: bool = True
    entered: int = 0


class ModelReport(msgspec.Struct, frozen=True):
    """Report of a rank that is ready: its inputs and outputs, and the outputs that it gives.

    `collectives` is the backend, and the reason for it; "" for a rank that is alone.
    """

    path: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    results: tuple[int, ...]
    stateful: bool = False  # whether requests change what later ones get
    collectives: str = ""
    decoder: DecoderReport | None = None  # where it generates text


class ServeJob(msgspec.Struct, frozen=True):
    """Job of an orchestrator's rank: its model, its settings, and the descriptors of its memory."""

    pattern: str
    count: int
    device: str
    collectives: str | None
    threads: int
    spin: bool  # whether there is a core for each thread of all ranks
    spare: bool  # whether there is one for each rank, and another
    ring: int
    tensors: int
    bell: int
    seats: list[int]
    parent: int
    cores: list[int]
    # whether others start once this rank is ready, and want to find its build in the model cache
    first: bool = False
    updates: int = -1  # the descriptor of the arena of updated weights
    stage: StageWeights | None = (
        None  # the edition to start with, where that is not the model's files'
    )
    warm: bool = True
    allow_equal_shards: bool = False
    executor: str = ""  # its name, "" for the one that suits the device
    precision_mode: str = ""  # "" for that of the device
    execution_plan: dict[str, str] = {}  # types of single nodes, by name
    cache: str = ""  # the folder of the model cache, "off" for none, "" for the usual one
    samples: tuple[WarmupSample, ...] = ()  # requests that it runs before it is ready
    function: PythonFunction | None = None  # what the rank runs in place of a model file
    decoder: DecoderJob | None = None  # where the model generates text
    address: str = ""  # of rank 0's host, where the ranks are on several
    kept: int = -1  # a descriptor whose other end tells when the last process with it is gone
    invitation: StreamInvitation | None = None  # to the connection of its orders from another host

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the rank inherits."""
        return (self.bell, *self.seats, *([] if self.kept < 0 else [self.kept]))

    @property
    def sent(self) -> tuple[int, ...]:
        """The descriptors that the rank is sent."""
        decoder = () if self.decoder is None else (self.decoder.file,)
        return (self.ring, self.tensors, self.updates, *decoder)

    def received(self, ring: int, tensors: int, updates: int, *decoder: int) -> ServeJob:
        """The job with the numbers that these descriptors have in the rank."""
        job = msgspec.structs.replace(self, ring=ring, tensors=tensors, updates=updates)
        if self.decoder is None:
            return job
        (file,) = decoder
        return msgspec.structs.replace(
            job, decoder=msgspec.structs.replace(self.decoder, file=file)
        )


AS_ORDERED = Answer([])
"""All the outputs, one behind the other at the beginning of the room, in the shapes that this rank
has reported; none, where the rank gives none.
"""


@dataclass(frozen=True, eq=False, slots=True)
class GivenOutputs:
    """Which outputs ranks give, by rank: their positions in the model. Ranks that give none are
    left out. Equal is only the same object.
    """

    by_rank: Mapping[int, tuple[int, ...]]


Rooms: TypeAlias = tuple[tuple[int, int], ...]
"""Offsets and sizes of the rooms of the ranks that give outputs, in the order of GivenOutputs."""


def encode_run(layout: TensorLayout, offset: int, given: GivenOutputs, rooms: Rooms) -> bytes:
    """The order to run inputs that lie at `offset` like `layout`."""
    inputs = tuple([TensorRef(offset + part.offset, part.shape) for part in layout.parts])
    return encode_handed(inputs, given, rooms)


def encode_handed(inputs: tuple[TensorRef, ...], given: GivenOutputs, rooms: Rooms) -> bytes:
    """As `encode_run`, of inputs that lie anywhere."""
    parts = [
        OutputPart(rank, positions, OutputBuffer(*room))
        for (rank, positions), room in zip(given.by_rank.items(), rooms, strict=True)
    ]
    return encode_order(Run(inputs, tuple(parts)))


encoded_run = lru_cache(KEPT_ORDERS)(encode_run)
"""As `encode_run`, of a layout that requests have in common."""


_ENCODER = msgspec.msgpack.Encoder()
_ORDERS: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_read_order, _read_answer = guarded(_ORDERS), guarded(msgspec.msgpack.Decoder(Answer))
decode_report = guarded(msgspec.msgpack.Decoder(ModelReport))
_SUM, _SHORT = 4, 256


def encode_order(message: Order) -> bytes:
    """An order, and its checksum: any rank of the group can write where it lies."""
    return with_checksum(_ENCODER.encode(message))


def with_checksum(data: bytes) -> bytes:
    """The bytes of an order as `decode_order` takes them."""
    return data + crc32(data).to_bytes(_SUM, "little")


@lru_cache(KEPT_ORDERS)
def decode_order(data: bytes) -> Order:
    """Decode the bytes of `encode_order`; msgspec.DecodeError for all others."""
    message = memoryview(data)[:-_SUM]
    if crc32(message) != int.from_bytes(data[-_SUM:], "little"):
        raise msgspec.DecodeError(f"its {len(data)} bytes are not what was written")
    return _read_order(message)


encode_answer = _ENCODER.encode


def decode_answer(data: bytes) -> tuple[Answer, int]:
    """An answer and the checksum of its bytes; DecodeError where they are none. Remembers the last
    short ones.
    """
    return _short_answer(data) if len(data) < _SHORT else (_read_answer(data), crc32(data))


@lru_cache(KEPT_ORDERS)
def _short_answer(data: bytes) -> tuple[Answer, int]:
    return _read_answer(data), crc32(data)
