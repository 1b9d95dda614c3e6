"""One parser per version of the rank table format, each from JSON to servers."""

from __future__ import annotations

from collections.abc import Callable

from .fault import RankTableFault
from .node import Node
from .server import Device, Server


def parse_servers(root: Node) -> tuple[Server, ...]:
    """The servers of a table of any supported version."""
    supported = "a version that is supported so far: " + ", ".join(f'"{name}"' for name in _PARSERS)
    version = root.get("version")
    if version is None:
        raise RankTableFault(f"is missing, expected {supported}", "version")
    parser = _PARSERS.get(version.value) if isinstance(version.value, str) else None
    if parser is None:
        version.expected(supported)
    return parser(root)


def _version_1_0(root: Node) -> tuple[Server, ...]:
    _check_completed(root.at("status"))
    servers = tuple(_server(node) for node in root.at("server_list").items())
    count = root.get("server_count")
    if count is not None and count.integer() != len(servers):
        count.fail(f"got {count.integer()}, but server_list has {len(servers)} element(s)")
    return servers


def _check_completed(status: Node) -> None:
    if status.text() == "initializing":
        status.fail("got 'initializing': the table is not finished; use it once its status is 'completed'")
    if status.text() != "completed":
        status.expected("'completed'")


def _server(node: Node) -> Server:
    return Server(
        server_id=node.at("server_id").text(),
        devices=tuple(_device(child) for child in node.at("device").items()),
        host_ip=_optional_text(node, "host_ip"),
    )


def _device(node: Node) -> Device:
    return Device(
        rank=node.at("rank_id").integer(),
        device_id=node.at("device_id").integer(),
        device_ip=_optional_text(node, "device_ip"),
    )


def _optional_text(node: Node, key: str) -> str | None:
    found = node.get(key)
    return None if found is None else found.text()


_PARSERS: dict[str, Callable[[Node], tuple[Server, ...]]] = {"1.0": _version_1_0}
