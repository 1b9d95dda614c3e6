"""Building of rank tables: for one server from its devices, for several from their tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from .fault import RankTableFault
from .server import Device, Server, SuperPod
from .table import RankTable


def make(
    server_id: str,
    device_ids: Sequence[int],
    device_ips: Mapping[int, str] | None = None,
    super_device_ids: Sequence[int] = (),
    super_pod_id: str = "0",
) -> RankTable:
    """Make the table of one server.

    Rank r runs on `device_ids[r]`, reached at `device_ips[device_ids[r]]` if given. With
    `super_device_ids`, one for each device, the table has a super pod. Raises RankTableFault.
    """
    if super_device_ids and len(super_device_ids) != len(device_ids):
        raise RankTableFault(
            f"got {len(super_device_ids)} super device id(s) for {len(device_ids)} device(s)"
        )
    ips = device_ips or {}
    devices = tuple(
        Device(
            rank,
            device_id,
            ips.get(device_id),
            super_device_ids[rank] if super_device_ids else None,
        )
        for rank, device_id in enumerate(device_ids)
    )
    pods = (SuperPod(super_pod_id, (server_id,)),) if super_device_ids else ()
    return RankTable((Server(server_id, devices),), pods)


def merge(tables: Iterable[tuple[str, RankTable]]) -> RankTable:
    """Merge tables, given as (name, table), into one; ranks are renumbered in the order given.

    Super pods with the same id become one. Raises RankTableFault, which names two tables with the
    same server.
    """
    owner: dict[str, str] = {}
    servers: list[Server] = []
    pods: dict[str, tuple[str, ...]] = {}
    first = 0
    for name, table in tables:
        for server in table.servers:
            _claim(owner, server.server_id, name)
            devices = tuple(replace(one, rank=first + one.rank) for one in server.devices)
            servers.append(replace(server, devices=devices))
        for pod in table.super_pods:
            pods[pod.super_pod_id] = (*pods.get(pod.super_pod_id, ()), *pod.server_ids)
        first += table.world_size
    try:
        return RankTable(tuple(servers), tuple(SuperPod(pod, names) for pod, names in pods.items()))
    except RankTableFault as fault:
        files = ", ".join(dict.fromkeys(owner.values())) or "no files"
        raise fault.in_source(f"merged table of {files}") from None


def file_name(table: RankTable) -> str:
    """The usual name of a table's file: hccl_2p_01_10.20.30.41.json.

    hccl_2s_16p.json for several servers.
    """
    if len(table.servers) > 1:
        return f"hccl_{len(table.servers)}s_{table.world_size}p.json"
    server = table.servers[0]
    ids = "".join(
        str(device.device_id) for device in sorted(server.devices, key=lambda device: device.rank)
    )
    return f"hccl_{table.world_size}p_{ids}_{server.server_id}.json"


def _claim(owner: dict[str, str], server_id: str, name: str) -> None:
    if server_id in owner:
        raise RankTableFault(
            f"server {server_id!r} is in {owner[server_id]} too; each server must be in one table "
            "only (was a file given twice, or made on the wrong host?)",
            source=name,
        )
    owner[server_id] = name


HCCN_CONF = Path("/etc/hccn.conf")
_ADDRESS = re.compile(r"\s*address_(\d{1,5})\s*=\s*(\S+)\s*", re.ASCII)


def read_device_ips(path: str | os.PathLike[str] = HCCN_CONF) -> dict[int, str]:
    """The device_ip of each device id, from lines `address_0=192.98.30.20`.

    Empty where the file, that of the driver of Ascend devices, cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = (_ADDRESS.fullmatch(line) for line in lines)
    return {int(match[1]): match[2] for match in found if match}
