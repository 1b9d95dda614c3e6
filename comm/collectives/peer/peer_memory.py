"""Peer memory: memory on the device of each rank, which all ranks of the host have mapped."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from ...decoding import decode_payloads
from ...job.rank import Rank
from ...sharing.device_memory import MemoryDevice
from ...sharing.memory_offer import MemoryOffer, OfferedMemory, map_offered

Exchange = Callable[[bytes], list[bytes]]
_ENCODE = msgspec.msgpack.Encoder().encode


class PeerMemory:
    """So many zeros on each rank's device; `addresses` are those in this process, in rank order.

    A rank writes only to its own. The memory goes from process to process by brokers, as shared
    weights do: each hands it to the processes of the job and to no others.
    """

    def __init__(self, device: MemoryDevice, rank: Rank, exchange: Exchange, size: int) -> None:
        """Make and map them; all ranks of the job call this together. Raises UsageError."""
        with MemoryOffer(device, rank.rank, size) as mine:
            mine.memory.write(0, np.zeros(size, np.uint8))
            offers = decode_payloads(exchange(_ENCODE(mine.offered)), OfferedMemory)
            for offer in offers:
                mine.allow(offer.pid)
            exchange(b"")  # all are on all lists
            self._mapped = [
                mine.memory if at == rank.rank else map_offered(device, offer)
                for at, offer in enumerate(offers)
            ]
            exchange(b"")  # all have it
        self.addresses = [one.pointer for one in self._mapped]
