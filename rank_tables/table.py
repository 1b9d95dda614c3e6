"""The rank table: which rank runs on which device of which server."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from .check import check_servers
from .fault import RankTableFault
from .node import Node
from .server import Device, Server
from .versions import parse_servers

MAX_BYTES = 32 << 20


class RankTable(msgspec.Struct, frozen=True):
    """A complete, consistent rank table; making an inconsistent one raises RankTableFault."""

    servers: tuple[Server, ...]

    def __post_init__(self) -> None:
        """Refuse servers that cannot be one job."""
        check_servers(self.servers)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RankTable:
        """Read and check the table in a file."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RankTableFault(f"cannot be read: {reason}", source=str(path)) from error
        return cls.parse(data, str(path))

    @classmethod
    def parse(cls, data: bytes, source: str = "rank table") -> RankTable:
        """Parse and check a table; `source` names it in messages."""
        try:
            return cls(parse_servers(Node(_decode(data))))
        except RankTableFault as fault:
            raise fault.in_source(source) from fault.__cause__

    @property
    def world_size(self) -> int:
        """How many ranks the job has."""
        return sum(len(server.devices) for server in self.servers)

    def device_of(self, rank: int) -> Device:
        """The device that `rank` runs on."""
        return next(device for device in self.server_of(rank).devices if device.rank == rank)

    def server_of(self, rank: int) -> Server:
        """The server that `rank` runs on."""
        for server in self.servers:
            if rank in server.ranks:
                return server
        raise RankTableFault(f"rank {rank} is not in the table, which has ranks 0 to {self.world_size - 1}")

    def to_json(self) -> bytes:
        """The table as a v1.0 file, ids as strings as the usual tools write them."""
        document = {
            "version": "1.0",
            "server_count": str(len(self.servers)),
            "server_list": [_server_json(server) for server in self.servers],
            "status": "completed",
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=4) + b"\n"


def _decode(data: bytes) -> object:
    if len(data) > MAX_BYTES:
        raise RankTableFault(f"is larger than {MAX_BYTES >> 20} MiB, which no rank table is")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RankTableFault(f"is not JSON ({error})") from error


def _server_json(server: Server) -> dict[str, object]:
    host_ip = {} if server.host_ip is None else {"host_ip": server.host_ip}
    devices = [_device_json(device) for device in server.devices]
    return {"server_id": server.server_id, "device": devices, **host_ip, "host_nic_ip": "reserve"}


def _device_json(device: Device) -> dict[str, str]:
    device_ip = {} if device.device_ip is None else {"device_ip": device.device_ip}
    return {"device_id": str(device.device_id), **device_ip, "rank_id": str(device.rank)}
