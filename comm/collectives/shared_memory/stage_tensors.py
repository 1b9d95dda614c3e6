"""Stage tensors: Sends and Receives between stages whose devices reach each other's memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from ...collective_call import Call
from ...decoding import decode_payloads
from ...errors import OutOfMemory, UsageError
from ...job.rank import Rank
from ...loggers import LOG
from ...sharing.device_memory import DeviceMemory, MemoryDevice
from ...sharing.memory_offer import MemoryOffer, OfferedMemory, map_offered
from ..backend import ReceivedForm
from .collectives import SharedMemoryCollectives
from .device_transfer import RING_BYTES, DeviceRing

_ENCODE = msgspec.msgpack.Encoder().encode
Exchange = Callable[[bytes], list[bytes]]
Pair = tuple[int, int]
MakeTensor = Callable[[ReceivedForm], Any]


class StageOffer(msgspec.Struct, frozen=True):
    """A rank's offer to the others: its process, and its memory if it has some to send from."""

    pid: int
    memory: OfferedMemory | None = None


class MappedOffers(msgspec.Struct, frozen=True):
    """The ranks whose memory a rank has mapped."""

    sources: tuple[int, ...]


class StageTensors:
    """See TensorCollectives: Sends and Receives between devices that reach each other."""

    recordable = False
    repeatable = True

    def __init__(
        self,
        collectives: SharedMemoryCollectives,
        make: MakeTensor,
    ) -> None:
        """`collectives` have the rings of the pairs; `make` gives a new tensor on the device."""
        self._collectives = collectives
        self._make = make
        self._received: dict[int, list[Any]] = {}

    def takes(self, call: Call) -> bool:
        """See TensorCollectives.takes."""
        return self._collectives.ring(call) is not None

    def enqueue(
        self, call: Call, inputs: Sequence[Any], recording: bool, received: Sequence[ReceivedForm]
    ) -> list[Any]:
        """See TensorCollectives.enqueue; a Receive fills the same tensors each time."""
        outputs = self._received.get(id(call))
        if outputs is None:
            outputs = self._received[id(call)] = [self._make(form) for form in received]
        if not recording:
            self._collectives.run(call, [one.contiguous() for one in inputs], outputs)
        return outputs

    def recorded(self) -> None:
        """See TensorCollectives.recorded: calls are noted as they run."""

    @contextmanager
    def following(self, entered: Any) -> Iterator[Callable[[], None]]:
        """See TensorCollectives.following."""
        yield self._collectives.check_abort


def hand_over_on_devices(
    collectives: SharedMemoryCollectives,
    rank: Rank,
    exchange: Exchange,
    pairs: Sequence[Pair],
    device: MemoryDevice | None,
    make: MakeTensor,
) -> None:
    """Let those of `pairs` (source, destination) whose devices reach each other use their memory.

    All ranks of the job call this together, with the same pairs. A rank has a ring for each of its
    destinations. Pairs for which that is not possible use the memory of the host, and a warning
    says why.
    """
    memory = _memory_of_pairs(rank.rank, exchange, pairs, device)
    rings = {
        (source, to): DeviceRing(memory[source, to], at * RING_BYTES)
        for source in {source for source, _ in pairs}
        for at, to in enumerate(_destinations(pairs, source))
        if (source, to) in memory
    }
    if rings:
        collectives.use_rings(rings)
        collectives.tensors = StageTensors(collectives, make)


def _memory_of_pairs(
    me: int, exchange: Exchange, pairs: Sequence[Pair], device: MemoryDevice | None
) -> dict[Pair, DeviceMemory]:
    """For each pair of this rank the memory of the sender, where the receiver has mapped it."""
    with ExitStack() as until_mapped:
        own = _offered(device, me, len(_destinations(pairs, me)), until_mapped)
        offer = StageOffer(os.getpid(), own.offered if own else None)
        offers = decode_payloads(exchange(_ENCODE(offer)), StageOffer)
        if own:
            for to in _destinations(pairs, me):
                own.allow(offers[to].pid)
        exchange(b"")  # all are on all lists
        found = {
            (source, to): memory
            for source, to in pairs
            if to == me and (memory := _mapped(device, source, offers[source].memory))
        }
        sources = _ENCODE(MappedOffers(tuple(source for source, _ in found)))
        mapped = decode_payloads(exchange(sources), MappedOffers)
    if own:
        sent = {(me, to): own.memory for to in _destinations(pairs, me)}
        found |= {pair: one for pair, one in sent.items() if me in mapped[pair[1]].sources}
    return found


def _destinations(pairs: Sequence[Pair], rank: int) -> list[int]:
    return sorted({to for source, to in pairs if source == rank != to})


def _offered(
    device: MemoryDevice | None, rank: int, rings: int, until_mapped: ExitStack
) -> MemoryOffer | None:
    """Memory for this rank's Sends; None where it has none, or its device gives none."""
    if device is None or not rings:
        return None
    try:
        return until_mapped.enter_context(MemoryOffer(device, rank, rings * RING_BYTES))
    except (OutOfMemory, UsageError, OSError) as error:
        _tell(f"rank {rank} sends tensors", error)
        return None


def _mapped(
    device: MemoryDevice | None, source: int, offered: OfferedMemory | None
) -> DeviceMemory | None:
    if device is None or offered is None:
        return None
    try:
        return map_offered(device, offered)
    except (OutOfMemory, UsageError, OSError) as error:
        _tell(f"tensors come from rank {source}", error)
        return None


def _tell(what: str, error: Exception) -> None:
    LOG.warning("%s through the host's memory, not from device to device: %s", what, error)
