"""Memory offer: memory of this rank's device, which listed processes of the job may map."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from types import TracebackType

import msgspec

from ..decoding import guarded
from ..errors import UsageError
from ..host.sealed_memory import SealedMemory, map_read_only
from .attachment import Attachment
from .broker import Broker
from .device_memory import DeviceMemory, MemoryDevice, Ticket
from .whitelist import Whitelist

_LABEL = "collectives"
_ENCODE = msgspec.msgpack.Encoder().encode
_TICKET = guarded(msgspec.msgpack.Decoder(Ticket))


class OfferedMemory(msgspec.Struct, frozen=True):
    """An offer, as other processes ask for it: its process, its handle and its device."""

    pid: int
    handle: int
    device: str


class MemoryOffer:
    """New memory on a device; while this is open, a broker hands it to the processes allowed."""

    def __init__(self, device: MemoryDevice, rank: int, size: int) -> None:
        """Raises OutOfMemory, UsageError, OSError."""
        with ExitStack() as open_so_far:
            self.memory = open_so_far.enter_context(closing(device.create(size)))
            ticket = _ENCODE(self.memory.ticket)
            file = open_so_far.enter_context(closing(SealedMemory("peer-ticket", len(ticket))))
            file.bytes[:] = ticket
            fds = [file.fd, *([self.memory.fd] if self.memory.fd >= 0 else [])]
            self._broker = Broker(Whitelist(), _LABEL, device.name, fds, rank=rank)
            self._broker.start()
            open_so_far.callback(self._broker.close)
            self._open = open_so_far.pop_all()
        self.offered = OfferedMemory(os.getpid(), self._broker.handle, device.name)

    def allow(self, pid: int) -> None:
        """Let a process ask for the memory."""
        self._broker.allow(pid)

    def __enter__(self) -> MemoryOffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the offer; the memory stays."""
        self._open.close()


def map_offered(device: MemoryDevice, offered: OfferedMemory) -> DeviceMemory:
    """Map what another rank offers, for reading. Raises UsageError."""
    held = Attachment(offered.handle, _LABEL, offered.device)
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
