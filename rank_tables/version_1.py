"""Rank tables of version 1.0, a list of servers, and 1.2, which adds super pods."""

from __future__ import annotations

from msgspec.structs import replace

from .draft import Draft, usual_places
from .node import Node
from .server import Device, Server
from .super_pod import SuperPod


def version_1_0(root: Node) -> Draft:
    """Read a table of version 1.0; members that only 1.2 has are ignored."""
    servers = root.at("server_list").each(_server)
    return _draft("version 1.0", root, servers)


def version_1_2(root: Node) -> Draft:
    """Read a table of version 1.2."""
    servers = root.at("server_list").each(_server_1_2)
    pods = root.optional("super_pod_list", lambda node: node.each(_super_pod)) or ()
    return replace(_draft("version 1.2", root, servers), super_pods=pods)


def _draft(form: str, root: Node, servers: tuple[Server, ...]) -> Draft:
    miscounts = root.miscounts("server_count", len(servers), f"server_list has {len(servers)} element(s)")
    return Draft(form, servers, usual_places(servers), faults=tuple(miscounts))


def _server(node: Node) -> Server:
    return Server(
        server_id=node.at("server_id").text(),
        devices=node.at("device").each(_device),
        host_ip=node.optional("host_ip", Node.text),
    )


def _device(node: Node) -> Device:
    return Device(
        rank=node.at("rank_id").integer(),
        device_id=node.at("device_id").integer(),
        device_ip=node.optional("device_ip", Node.text),
    )


def _server_1_2(node: Node) -> Server:
    return replace(_server(node), devices=node.at("device").each(_device_1_2))


def _device_1_2(node: Node) -> Device:
    return replace(_device(node), super_device_id=node.optional("super_device_id", Node.integer))


def _super_pod(node: Node) -> SuperPod:
    return SuperPod(
        super_pod_id=node.at("super_pod_id").label(),
        server_ids=node.at("server_list").each(lambda child: child.at("server_id").text()),
    )
