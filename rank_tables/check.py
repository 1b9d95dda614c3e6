"""What must hold in every rank table, whoever made it; faults name the place in the v1.0 layout."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import TypeVar

from .fault import RankTableFault
from .server import Device, Server

MAX_RANKS = 65536
MAX_NAME = 64
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_ONLY_DIGITS_AND_DOTS = re.compile(r"[0-9.]+", re.ASCII)
_Value = TypeVar("_Value", int, str)


def check_servers(servers: tuple[Server, ...]) -> None:
    """Refuse servers that cannot be one job."""
    if not servers:
        raise RankTableFault("has 0 elements, expected at least 1", "server_list")
    seen: dict[str, str] = {}
    for i, server in enumerate(servers):
        path = f"server_list[{i}]"
        _check_names(server, path)
        _refuse_repeat(seen, server.server_id, f"{path}.server_id")
        _check_devices(server, path)
    _check_ranks(servers)


def _check_names(server: Server, path: str) -> None:
    text = server.server_id
    named = _HOST_NAME.fullmatch(text) and not _ONLY_DIGITS_AND_DOTS.fullmatch(text)
    if len(text) > MAX_NAME or not (named or _is_address(text)):
        raise RankTableFault(
            f"got {text[:MAX_NAME]!r}, expected an IP address or a host name (at most {MAX_NAME} characters)",
            f"{path}.server_id")
    _check_address(server.host_ip, f"{path}.host_ip")


def _check_devices(server: Server, path: str) -> None:
    if not server.devices:
        raise RankTableFault("has 0 elements, expected at least 1", f"{path}.device")
    seen: dict[int, str] = {}
    for j, device in enumerate(server.devices):
        where = f"{path}.device[{j}]"
        _check_id(device.device_id, f"{where}.device_id")
        _refuse_repeat(seen, device.device_id, f"{where}.device_id")
        _check_address(device.device_ip, f"{where}.device_ip")


def _check_ranks(servers: tuple[Server, ...]) -> None:
    placed = list(_placed(servers))
    if len(placed) > MAX_RANKS:
        raise RankTableFault(f"has {len(placed)} devices, expected at most {MAX_RANKS}", "server_list")
    seen: dict[int, str] = {}
    for path, device in placed:
        _check_id(device.rank, path)
        _refuse_repeat(seen, device.rank, path)
    missing = next((rank for rank in range(len(placed)) if rank not in seen), None)
    if missing is not None:
        raise RankTableFault(
            f"got {max(seen)}, expected at most {len(placed) - 1} as the table has {len(placed)} device(s); "
            f"rank {missing} is missing", seen[max(seen)])
    for i, server in enumerate(servers):
        _check_contiguous(server, f"server_list[{i}].device")


def _check_contiguous(server: Server, path: str) -> None:
    ranks = server.ranks
    gap = next((low for low, high in zip(ranks, ranks[1:], strict=False) if high != low + 1), None)
    if gap is not None:
        raise RankTableFault(
            f"has rank {gap} but not rank {gap + 1}, which is on another server; "
            "the ranks of one server must follow one another", path)


def _placed(servers: tuple[Server, ...]) -> Iterator[tuple[str, Device]]:
    for i, server in enumerate(servers):
        for j, device in enumerate(server.devices):
            yield f"server_list[{i}].device[{j}].rank_id", device


def _check_id(value: int, path: str) -> None:
    if not 0 <= value < MAX_RANKS:
        raise RankTableFault(f"got {value}, expected an integer from 0 to {MAX_RANKS - 1}", path)


def _check_address(text: str | None, path: str) -> None:
    if text is not None and not _is_address(text):
        raise RankTableFault(f"got {text[:MAX_NAME]!r}, expected an IP address such as 192.168.100.101", path)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(text) <= MAX_NAME


def _refuse_repeat(seen: dict[_Value, str], value: _Value, path: str) -> None:
    first = seen.setdefault(value, path)
    if first != path:
        raise RankTableFault(f"{value!r} is repeated; {first} has it already", path)
