"""Servers of a rank table: their devices, each with a rank, and super pods of servers."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True):
    """One device and the rank that runs on it."""

    rank: int
    device_id: int
    device_ip: str | None = None
    super_device_id: int | None = None


class Server(msgspec.Struct, frozen=True):
    """One host: its name or address, its devices, and the address at which it is reached."""

    server_id: str
    devices: tuple[Device, ...]
    host_ip: str | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of this server, ascending."""
        return tuple(sorted(device.rank for device in self.devices))


class SuperPod(msgspec.Struct, frozen=True):
    """Servers whose devices share one fast network, as v1.2 tables list them."""

    super_pod_id: str
    server_ids: tuple[str, ...]
