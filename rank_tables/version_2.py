"""Rank tables of version 2.0: a list of ranks, each with its addresses on every layer of the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .address import address_faults
from .draft import Draft, Row, grouped
from .fault import RankTableFault, raise_all
from .node import Node
from .server import Device

_IP_TYPES = ("IPV4", "IPV6")


def version_2_0(root: Node) -> Draft:
    """Read a table of version 2.0; ranks with one net_instance_id on net_layer 0 count as one server."""
    read = root.at("rank_list").each(lambda node: (_row(node), node.at("local_id").integer()))
    rows = [row for row, _ in read]
    miscounts = root.miscounts("rank_count", len(rows), f"rank_list has {len(rows)} element(s)")
    return grouped("version 2.0", rows, "rank_list", (*miscounts, *_repeated_local_ids(read)))


def _row(node: Node) -> Row:
    layers = node.at("level_list").each(lambda level: (level.at("net_layer").integer(), level))
    instance = next((level.at("net_instance_id") for layer, level in layers if layer == 0), None)
    if instance is None:
        node.at("level_list").fail("has no element whose net_layer is 0, which says what the rank is next to")
    device = Device(
        rank=node.at("rank_id").integer(),
        device_id=node.at("device_id").integer(),
        device_ip=next((ip for _, level in layers for ip in _addresses(level)), None),
    )
    return Row(instance.label(), device, instance.path, "rank_list", node.path, f"{node.path}.rank_id")


def _addresses(level: Node) -> Iterable[str]:
    """The IP addresses of a rank on one layer; other types of addresses are left out."""
    addresses = level.optional("rank_addr_list", lambda node: node.each(_ip_address)) or ()
    return (address for address in addresses if address is not None)


def _ip_address(node: Node) -> str | None:
    address = node.at("addr")
    text = address.text()
    if node.at("addr_type").text() not in _IP_TYPES:
        return None
    raise_all(address_faults(text, address.path))
    return text


def _repeated_local_ids(read: Iterable[tuple[Row, int]]) -> Iterator[RankTableFault]:
    seen: dict[tuple[str, int], str] = {}
    for row, local_id in read:
        first = seen.setdefault((row.server_id, local_id), row.device_place)
        if first != row.device_place:
            yield RankTableFault(f"{local_id} is repeated; {first}.local_id has it already",
                                 f"{row.device_place}.local_id")
