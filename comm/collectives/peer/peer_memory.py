"""Peer memory: memory on the device of each rank, which all ranks of the host have mapped."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import numpy as np

from ...decoding import decode_payloads, guarded
from ...errors import UsageError
from ...host.sealed_memory import SealedMemory, map_read_only
from ...job.rank import Rank
from ...sharing.attachment import Attachment
from ...sharing.broker import Broker
from ...sharing.device_memory import DeviceMemory, MemoryDevice, Ticket
from ...sharing.whitelist import Whitelist

Exchange = Callable[[bytes], list[bytes]]
_LABEL = "collectives"
_ENCODE = msgspec.msgpack.Encoder().encode
_TICKET = guarded(msgspec.msgpack.Decoder(Ticket))


class PeerOffer(msgspec.Struct, frozen=True):
    """The offer of a rank to the others: its process, and the handle and device of its memory."""

    pid: int
    handle: int
    device: str


class PeerMemory:
    """So many zeros on each rank's device; `addresses` are those in this process, in rank order.

    A rank writes only to its own. The memory goes from process to process by brokers, as shared
    weights do: each hands it to the processes of the job and to no others.
    """

    def __init__(self, device: MemoryDevice, rank: Rank, exchange: Exchange, size: int) -> None:
        """Make and map them; all ranks of the job call this together. Raises UsageError."""
        self._own = device.create(size)
        self._own.write(0, np.zeros(size, np.uint8))
        ticket = _ENCODE(self._own.ticket)
        file = SealedMemory("peer-ticket", len(ticket))
        file.bytes[:] = ticket
        fds = [file.fd, *([self._own.fd] if self._own.fd >= 0 else [])]
        broker = Broker(Whitelist(), _LABEL, device.name, fds, rank=rank.rank)
        broker.start()
        try:
            mine = PeerOffer(os.getpid(), broker.handle, device.name)
            offers = decode_payloads(exchange(_ENCODE(mine)), PeerOffer)
            for offer in offers:
                broker.allow(offer.pid)
            exchange(b"")  # all are on all lists
            self._mapped = [
                self._own if at == rank.rank else _mapped(device, offer)
                for at, offer in enumerate(offers)
            ]
            exchange(b"")  # all have it
        finally:
            broker.close()
            file.close()
            self._own.close()
        self.addresses = [one.pointer for one in self._mapped]


def _mapped(device: MemoryDevice, offer: PeerOffer) -> DeviceMemory:
    held = Attachment(offer.handle, _LABEL, offer.device)
    try:
        ticket = _TICKET(map_read_only(held.fds[0]))
        if ticket.kind == "vmm" and len(held.fds) < 2:
            raise UsageError("another rank handed over no memory of its GPU: run one version.")
        return device.open(ticket, held.fds[-1])
    except (ValueError, OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"another rank handed over no memory of its GPU ({error}): run one version of Rankmesh."
        ) from error
    finally:
        held.close()
