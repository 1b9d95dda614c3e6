"""Rank table: the device and server of each rank of a job.

First of the ten files of docs/architecture.md: a job begins with its ranks and their devices. The
launcher and the orchestrator read the table here; placement.py in comm/job makes the plan of ranks
from it.
"""

from __future__ import annotations

import os
import stat

import msgspec

from .check import check
from .draft import Draft, usual_paths
from .fault import RankTableFault, raise_all
from .readers import MAX_BYTES, checked_draft
from .server import Device, Server, SuperPod


class RankTable(msgspec.Struct, frozen=True):
    """A complete, consistent rank table; making an inconsistent one raises RankTableFault."""

    servers: tuple[Server, ...]
    super_pods: tuple[SuperPod, ...] = ()

    def __post_init__(self) -> None:
        """Raise RankTableFault for servers that cannot be one job; paths are those of `to_json`."""
        raise_all(
            check(Draft("version 1.2", self.servers, usual_paths(self.servers), self.super_pods))
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RankTable:
        """Read and check the table in a file of any version."""
        return cls.parse(read_table_file(path), str(path))

    @classmethod
    def parse(cls, data: bytes, source: str = "rank table") -> RankTable:
        """Parse and check a table of any version; `source` names it in messages."""
        try:
            draft = checked_draft(data)
        except RankTableFault as fault:
            raise fault.in_source(source) from fault.__cause__
        return cls(draft.servers, draft.super_pods)

    @property
    def world_size(self) -> int:
        """The number of ranks of the job."""
        return sum(len(server.devices) for server in self.servers)

    def device_of(self, rank: int) -> Device:
        """The device that `rank` runs on."""
        return next(device for device in self.server_of(rank).devices if device.rank == rank)

    def server_of(self, rank: int) -> Server:
        """The server that `rank` runs on."""
        for server in self.servers:
            if rank in server.ranks:
                return server
        raise RankTableFault(
            f"rank {rank} is not in the table, which has ranks 0 to {self.world_size - 1}"
        )

    def to_json(self, version: str | None = None) -> bytes:
        """The table as a file of version "1.0" or "1.2".

        By default 1.0 unless that would lose super pods or super device ids.
        """
        if version is None:
            devices = (device for server in self.servers for device in server.devices)
            super_devices = any(device.super_device_id is not None for device in devices)
            version = "1.2" if self.super_pods or super_devices else "1.0"
        if version not in ("1.0", "1.2"):
            raise RankTableFault(
                f"got {version!r}, expected '1.0' or '1.2', the versions that can be written",
                "version",
            )
        in_1_2 = version == "1.2"
        document: dict[str, object] = {
            "version": version,
            "server_count": str(len(self.servers)),
            "server_list": [_server(server, in_1_2) for server in self.servers],
            "status": "completed",
        }
        if in_1_2 and self.super_pods:
            document["super_pod_list"] = [_super_pod(pod) for pod in self.super_pods]
        return msgspec.json.format(msgspec.json.encode(document), indent=4) + b"\n"


def read_table_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a rank table file, up to MAX_BYTES + 1; RankTableFault names the file.

    Anything but a regular file is refused at once: a pipe would have to be waited for.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is no regular file")
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RankTableFault(f"cannot be read: {reason}", source=str(path)) from error


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _server(server: Server, in_1_2: bool) -> dict[str, object]:
    written: dict[str, object] = {
        "server_id": server.server_id,
        "device": [_device(device, in_1_2) for device in server.devices],
    }
    if server.host_ip is not None:
        written["host_ip"] = server.host_ip
    if not in_1_2:
        written["host_nic_ip"] = "reserve"
    return written


def _device(device: Device, in_1_2: bool) -> dict[str, str]:
    written = {"device_id": str(device.device_id)}
    if device.device_ip is not None:
        written["device_ip"] = device.device_ip
    written["rank_id"] = str(device.rank)
    if in_1_2 and device.super_device_id is not None:
        written["super_device_id"] = str(device.super_device_id)
    return written


def _super_pod(pod: SuperPod) -> dict[str, object]:
    return {
        "super_pod_id": pod.super_pod_id,
        "server_list": [{"server_id": name} for name in pod.server_ids],
    }
