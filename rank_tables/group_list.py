"""The two old forms of rank tables, which have a group_list and no version."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from .draft import Draft, Row, grouped
from .fault import RankTableFault, raise_all
from .node import Node
from .server import Device


class _Instance(msgspec.Struct, frozen=True):
    """One element of an instance_list; its devices have the place and rank 0 until `_rows` ranks them."""

    node: Node
    server_id: str
    devices: tuple[tuple[str, Device], ...]
    rank: int | None

    def row(self, rank: int, place: str, device: Device, rank_place: str) -> Row:
        path = self.node.path
        return Row(self.server_id, replace(device, rank=rank), f"{path}.server_id", f"{path}.devices", place,
                   rank_place)


def group_list(root: Node) -> Draft:
    """Read an old table.

    In the form of the laboratory tool each instance is one device and has its rank id; in the form of the job
    controller an instance is a pod with any number of devices, and ranks follow the order in the file.
    """
    groups = root.at("group_list").each(lambda node: (node, node.at("instance_list").each(_instance)))
    instances = [instance for _, found in groups for instance in found]
    miscounts = root.miscounts("group_count", len(groups), f"group_list has {len(groups)} element(s)")
    faults = (*miscounts, *(fault for node, found in groups for fault in _miscounts(node, found)))
    if any(instance.rank is not None for instance in instances):
        return grouped("group_list with rank ids", _ranked(instances), "group_list", faults)
    return grouped("group_list without rank ids", _in_order(instances), "group_list", faults)


def _instance(node: Node) -> _Instance:
    devices = node.at("devices").each(lambda child: (child.path, _device(child)))
    if not devices:
        node.at("devices").fail("has 0 elements, expected at least 1")
    return _Instance(node, node.at("server_id").text(), devices, node.optional("rank_id", Node.integer))


def _device(node: Node) -> Device:
    return Device(0, node.at("device_id").integer(), node.optional("device_ip", Node.text))


def _ranked(instances: list[_Instance]) -> list[Row]:
    raise_all(fault for instance in instances for fault in _faults_of_ranked(instance))
    return [instance.row(instance.node.at("rank_id").integer(), *instance.devices[0], f"{instance.node.path}.rank_id")
            for instance in instances]


def _faults_of_ranked(instance: _Instance) -> Iterator[RankTableFault]:
    if instance.rank is None:
        yield RankTableFault("is missing, and other instances have one", f"{instance.node.path}.rank_id")
    if len(instance.devices) != 1:
        yield RankTableFault(f"has {len(instance.devices)} elements, expected 1 where instances have a rank_id",
                             f"{instance.node.path}.devices")


def _in_order(instances: list[_Instance]) -> list[Row]:
    devices = [(instance, *device) for instance in instances for device in instance.devices]
    return [instance.row(rank, place, device, place) for rank, (instance, place, device) in enumerate(devices)]


def _miscounts(group: Node, instances: tuple[_Instance, ...]) -> Iterator[RankTableFault]:
    devices = sum(len(instance.devices) for instance in instances)
    servers = len({instance.server_id for instance in instances})
    yield from group.miscounts("instance_count", len(instances), f"instance_list has {len(instances)} element(s)")
    for key in ("device_count", "device_num"):
        yield from group.miscounts(key, devices, f"the instances have {devices} device(s)")
    yield from group.miscounts("server_num", servers, f"the instances are on {servers} server(s)")
