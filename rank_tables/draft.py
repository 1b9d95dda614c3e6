"""A rank table as it was read, with the place of each value in its file; not known to be consistent yet."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .fault import RankTableFault
from .server import Device, Server
from .super_pod import SuperPod


class Place(msgspec.Struct, frozen=True):
    """The JSON paths of one server: its id, the list of its devices, each device and each rank id."""

    server_id: str
    devices: str
    device: tuple[str, ...]
    rank: tuple[str, ...]
    host_ip: str = ""


class Draft(msgspec.Struct, frozen=True):
    """What a file says: servers with their places, super pods, and the contradictions seen while reading."""

    format: str
    servers: tuple[Server, ...]
    places: tuple[Place, ...]
    super_pods: tuple[SuperPod, ...] = ()
    faults: tuple[RankTableFault, ...] = ()
    listing: str = "server_list"


class Row(msgspec.Struct, frozen=True):
    """One rank of a format that lists ranks, not servers; the last four are JSON paths."""

    server_id: str
    device: Device
    server_place: str
    devices_place: str
    device_place: str
    rank_place: str


def usual_places(servers: tuple[Server, ...]) -> tuple[Place, ...]:
    """The places of servers in the v1.0 and v1.2 layouts."""
    return tuple(_usual_place(f"server_list[{i}]", len(server.devices)) for i, server in enumerate(servers))


def _usual_place(path: str, devices: int) -> Place:
    each = tuple(f"{path}.device[{j}]" for j in range(devices))
    return Place(f"{path}.server_id", f"{path}.device", each, tuple(f"{device}.rank_id" for device in each),
                 f"{path}.host_ip")


def grouped(form: str, rows: Iterable[Row], listing: str, faults: Iterable[RankTableFault]) -> Draft:
    """The draft of a format that lists ranks: those with the same server_id are one server."""
    by_server: dict[str, list[Row]] = {}
    for row in rows:
        by_server.setdefault(row.server_id, []).append(row)
    servers = tuple(Server(name, tuple(row.device for row in found)) for name, found in by_server.items())
    places = tuple(Place(found[0].server_place, found[0].devices_place, tuple(row.device_place for row in found),
                         tuple(row.rank_place for row in found)) for found in by_server.values())
    return Draft(form, servers, places, faults=tuple(faults), listing=listing)
