"""Draft of a rank table: the values of a file with their JSON paths, not checked yet."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .fault import RankTableFault
from .server import Device, Server, SuperPod


class ServerPaths(msgspec.Struct, frozen=True):
    """The JSON paths of one server: its id, its devices, each device and each rank id."""

    server_id: str
    devices: str
    device: tuple[str, ...]
    rank: tuple[str, ...]
    host_ip: str = ""


class Draft(msgspec.Struct, frozen=True):
    """The content of a file: servers with their paths, super pods, faults found while reading."""

    format: str
    servers: tuple[Server, ...]
    places: tuple[ServerPaths, ...]
    super_pods: tuple[SuperPod, ...] = ()
    faults: tuple[RankTableFault, ...] = ()
    listing: str = "server_list"


class RankRow(msgspec.Struct, frozen=True):
    """One rank of a format that lists ranks, not servers; the last four are JSON paths."""

    server_id: str
    device: Device
    server_place: str
    devices_place: str
    device_place: str
    rank_place: str


def usual_paths(servers: tuple[Server, ...]) -> tuple[ServerPaths, ...]:
    """The paths of servers in the layouts of versions 1.0 and 1.2."""
    return tuple(
        _usual_place(f"server_list[{i}]", len(server.devices)) for i, server in enumerate(servers)
    )


def _usual_place(path: str, devices: int) -> ServerPaths:
    each = tuple(f"{path}.device[{j}]" for j in range(devices))
    return ServerPaths(
        f"{path}.server_id",
        f"{path}.device",
        each,
        tuple(f"{device}.rank_id" for device in each),
        f"{path}.host_ip",
    )


def grouped(
    form: str, rows: Iterable[RankRow], listing: str, faults: Iterable[RankTableFault]
) -> Draft:
    """The draft of a format that lists ranks: those with the same server_id are one server."""
    by_server: dict[str, list[RankRow]] = {}
    for row in rows:
        by_server.setdefault(row.server_id, []).append(row)
    servers = tuple(
        Server(name, tuple(row.device for row in found)) for name, found in by_server.items()
    )
    places = tuple(
        ServerPaths(
            found[0].server_place,
            found[0].devices_place,
            tuple(row.device_place for row in found),
            tuple(row.rank_place for row in found),
        )
        for found in by_server.values()
    )
    return Draft(form, servers, places, faults=tuple(faults), listing=listing)
