"""A host of a rank table and the devices on it; each device carries one rank."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True):
    """One device and the rank that runs on it."""

    rank: int
    device_id: int
    device_ip: str | None = None
    super_device_id: int | None = None


class Server(msgspec.Struct, frozen=True):
    """One host: its name or address in the table, its devices, the address it is reached at if given."""

    server_id: str
    devices: tuple[Device, ...]
    host_ip: str | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of this server, ascending."""
        return tuple(sorted(device.rank for device in self.devices))
