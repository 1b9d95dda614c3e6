"""Readers of rank tables: one for each version of the format, from JSON to a checked draft.

Version 1.0 lists servers, 1.2 adds super pods, 2.0 lists ranks. The two oldest forms have a
group_list and no version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import msgspec
from msgspec.structs import replace

from .check import address_faults, check
from .draft import Draft, RankRow, grouped, usual_paths
from .fault import RankTableFault, raise_all
from .node import JsonNode
from .server import Device, Server, SuperPod

MAX_BYTES = 32 << 20


def checked_draft(data: bytes) -> Draft:
    """The consistent draft of a file of any version.

    Raises its first fault, with the others attached.
    """
    draft = _without_empty_addresses(_read(JsonNode(_decode(data))))
    raise_all(chain(draft.faults, check(draft)))
    return draft


def _read(root: JsonNode) -> Draft:
    reader = _reader(root)
    status = root.get("status") if reader is _ranks else root.at("status")
    if status is not None:  # version 2.0 leaves it out
        _check_completed(status)
    return reader(root)


def _without_empty_addresses(draft: Draft) -> Draft:
    """The draft of one server without the empty addresses of its devices: no other server needs
    them, so tools leave them empty.
    """
    if len(draft.servers) != 1:
        return draft
    server = draft.servers[0]
    devices = (replace(one, device_ip=one.device_ip or None) for one in server.devices)
    return replace(draft, servers=(replace(server, devices=tuple(devices)),))


def _reader(root: JsonNode) -> Callable[[JsonNode], Draft]:
    version = root.get("version")
    if version is None:
        if root.get("group_list") is not None:
            return _group_list
        raise RankTableFault(
            f"is missing, expected {_SUPPORTED} (only tables with a group_list have none)",
            "version",
        )
    reader = _READERS.get(version.value) if isinstance(version.value, str) else None
    if reader is None:
        version.expected(_SUPPORTED)
    return reader


def _check_completed(status: JsonNode) -> None:
    if status.text() == "initializing":
        status.fail(
            "got 'initializing': the table is not finished; use it once its status is 'completed'"
        )
    if status.text() != "completed":
        status.expected("'completed'")


def _decode(data: bytes) -> object:
    if len(data) > MAX_BYTES:
        raise RankTableFault(f"is larger than {MAX_BYTES >> 20} MiB, which no rank table is")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RankTableFault(f"is not JSON ({error})") from error


def _servers(root: JsonNode, in_1_2: bool) -> Draft:
    """Read a table of version 1.0 or 1.2; in 1.0, members that only 1.2 has are ignored."""
    servers = root.at("server_list").each(partial(_server, in_1_2=in_1_2))
    pods = root.optional("super_pod_list", lambda node: node.each(_super_pod)) if in_1_2 else None
    miscounts = root.miscounts(
        "server_count", len(servers), f"server_list has {len(servers)} element(s)"
    )
    form = "version 1.2" if in_1_2 else "version 1.0"
    return Draft(form, servers, usual_paths(servers), pods or (), tuple(miscounts))


def _server(node: JsonNode, in_1_2: bool) -> Server:
    return Server(
        server_id=node.at("server_id").text(),
        devices=node.at("device").each(partial(_device, in_1_2=in_1_2)),
        host_ip=node.optional("host_ip", JsonNode.text),
    )


def _device(node: JsonNode, in_1_2: bool) -> Device:
    return Device(
        rank=node.at("rank_id").integer(),
        device_id=node.at("device_id").integer(),
        device_ip=node.optional("device_ip", JsonNode.text),
        super_device_id=node.optional("super_device_id", JsonNode.integer) if in_1_2 else None,
    )


def _super_pod(node: JsonNode) -> SuperPod:
    return SuperPod(
        super_pod_id=node.at("super_pod_id").label(),
        server_ids=node.at("server_list").each(lambda child: child.at("server_id").text()),
    )


def _ranks(root: JsonNode) -> Draft:
    """Read a table of version 2.0.

    Ranks with one net_instance_id on net_layer 0 count as one server.
    """
    read = root.at("rank_list").each(lambda node: (_row(node), node.at("local_id").integer()))
    rows = [row for row, _ in read]
    miscounts = root.miscounts("rank_count", len(rows), f"rank_list has {len(rows)} element(s)")
    return grouped("version 2.0", rows, "rank_list", (*miscounts, *_repeated_local_ids(read)))


def _row(node: JsonNode) -> RankRow:
    layers = node.at("level_list").each(lambda level: (level.at("net_layer").integer(), level))
    instance = next((level.at("net_instance_id") for layer, level in layers if layer == 0), None)
    if instance is None:
        node.at("level_list").fail(
            "has no element whose net_layer is 0, which says what the rank is next to"
        )
    device = Device(
        rank=node.at("rank_id").integer(),
        device_id=node.at("device_id").integer(),
        device_ip=next((ip for _, level in layers for ip in _addresses(level)), None),
    )
    return RankRow(
        instance.label(), device, instance.path, "rank_list", node.path, f"{node.path}.rank_id"
    )


def _addresses(level: JsonNode) -> Iterable[str]:
    """The IP addresses of a rank on one layer; other types, and empty ones, are left out."""
    addresses = level.optional("rank_addr_list", lambda node: node.each(_ip_address)) or ()
    return (address for address in addresses if address is not None)


def _ip_address(node: JsonNode) -> str | None:
    address = node.at("addr")
    text = address.text()
    if node.at("addr_type").text() not in ("IPV4", "IPV6") or not text:
        return None
    raise_all(address_faults(text, address.path))
    return text


def _repeated_local_ids(read: Iterable[tuple[RankRow, int]]) -> Iterator[RankTableFault]:
    seen: dict[tuple[str, int], str] = {}
    for row, local_id in read:
        first = seen.setdefault((row.server_id, local_id), row.device_place)
        if first != row.device_place:
            yield RankTableFault(
                f"{local_id} is repeated; {first}.local_id has it already",
                f"{row.device_place}.local_id",
            )


class _Instance(msgspec.Struct, frozen=True):
    """One element of an instance_list.

    Its devices have their paths, and rank 0 until they are ranked.
    """

    node: JsonNode
    server_id: str
    devices: tuple[tuple[str, Device], ...]
    rank: int | None

    def row(self, rank: int, place: str, device: Device, rank_place: str) -> RankRow:
        path = self.node.path
        return RankRow(
            self.server_id,
            replace(device, rank=rank),
            f"{path}.server_id",
            f"{path}.devices",
            place,
            rank_place,
        )


def _group_list(root: JsonNode) -> Draft:
    """Read an old table.

    In the form of the laboratory tool each instance is one device and has its rank id. In the form
    of the job controller an instance is a pod with any number of devices; ranks follow the order in
    the file.
    """
    groups = root.at("group_list").each(
        lambda node: (node, node.at("instance_list").each(_instance))
    )
    instances = [instance for _, found in groups for instance in found]
    miscounts = root.miscounts(
        "group_count", len(groups), f"group_list has {len(groups)} element(s)"
    )
    faults = (*miscounts, *(fault for node, found in groups for fault in _miscounts(node, found)))
    if any(instance.rank is not None for instance in instances):
        return grouped("group_list with rank ids", _ranked(instances), "group_list", faults)
    return grouped("group_list without rank ids", _in_order(instances), "group_list", faults)


def _instance(node: JsonNode) -> _Instance:
    devices = node.at("devices").each(lambda child: (child.path, _unranked_device(child)))
    if not devices:
        node.at("devices").fail("has 0 elements, expected at least 1")
    return _Instance(
        node, node.at("server_id").text(), devices, node.optional("rank_id", JsonNode.integer)
    )


def _unranked_device(node: JsonNode) -> Device:
    return Device(0, node.at("device_id").integer(), node.optional("device_ip", JsonNode.text))


def _ranked(instances: list[_Instance]) -> list[RankRow]:
    raise_all(fault for instance in instances for fault in _faults_of_ranked(instance))
    return [
        instance.row(
            instance.node.at("rank_id").integer(),
            *instance.devices[0],
            f"{instance.node.path}.rank_id",
        )
        for instance in instances
    ]


def _faults_of_ranked(instance: _Instance) -> Iterator[RankTableFault]:
    if instance.rank is None:
        yield RankTableFault(
            "is missing, and other instances have one", f"{instance.node.path}.rank_id"
        )
    if len(instance.devices) != 1:
        yield RankTableFault(
            f"has {len(instance.devices)} elements, expected 1 where instances have a rank_id",
            f"{instance.node.path}.devices",
        )


def _in_order(instances: list[_Instance]) -> list[RankRow]:
    devices = [(instance, *device) for instance in instances for device in instance.devices]
    return [
        instance.row(rank, place, device, place)
        for rank, (instance, place, device) in enumerate(devices)
    ]


def _miscounts(group: JsonNode, instances: tuple[_Instance, ...]) -> Iterator[RankTableFault]:
    devices = sum(len(instance.devices) for instance in instances)
    servers = len({instance.server_id for instance in instances})
    yield from group.miscounts(
        "instance_count", len(instances), f"instance_list has {len(instances)} element(s)"
    )
    for key in ("device_count", "device_num"):
        yield from group.miscounts(key, devices, f"the instances have {devices} device(s)")
    yield from group.miscounts("server_num", servers, f"the instances are on {servers} server(s)")


_READERS: dict[str, Callable[[JsonNode], Draft]] = {
    "1.0": partial(_servers, in_1_2=False),
    "1.2": partial(_servers, in_1_2=True),
    "2.0": _ranks,
}
_SUPPORTED = "one of " + ", ".join(f'"{name}"' for name in _READERS)
