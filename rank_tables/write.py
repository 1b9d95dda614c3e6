"""Rank tables as JSON files of version 1.0 or 1.2, laid out as the usual tools do, ids as strings."""

from __future__ import annotations

import msgspec

from .fault import RankTableFault
from .server import Device, Server
from .super_pod import SuperPod


def to_json(servers: tuple[Server, ...], super_pods: tuple[SuperPod, ...], version: str | None) -> bytes:
    """The text of a table; without a version, 1.0 unless that would lose super pods or super device ids."""
    if version is None:
        version = "1.2" if super_pods or _has_super_devices(servers) else "1.0"
    if version not in ("1.0", "1.2"):
        raise RankTableFault(f"got {version!r}, expected '1.0' or '1.2', the versions that can be written", "version")
    in_1_2 = version == "1.2"
    document: dict[str, object] = {
        "version": version,
        "server_count": str(len(servers)),
        "server_list": [_server(server, in_1_2) for server in servers],
        "status": "completed",
    }
    if in_1_2 and super_pods:
        document["super_pod_list"] = [_super_pod(pod) for pod in super_pods]
    return msgspec.json.format(msgspec.json.encode(document), indent=4) + b"\n"


def _has_super_devices(servers: tuple[Server, ...]) -> bool:
    return any(device.super_device_id is not None for server in servers for device in server.devices)


def _server(server: Server, in_1_2: bool) -> dict[str, object]:
    written: dict[str, object] = {
        "server_id": server.server_id, "device": [_device(device, in_1_2) for device in server.devices]}
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
    return {"super_pod_id": pod.super_pod_id, "server_list": [{"server_id": name} for name in pod.server_ids]}
