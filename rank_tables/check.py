"""Checks of rank tables: servers, devices, ranks and super pods make one consistent job."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import TypeVar

from .draft import Draft, ServerPaths
from .fault import RankTableFault
from .server import Device, Server

MAX_RANKS = 65536
_MAX_SUPER_DEVICE = 2**32 - 1
_MOST_SHOWN = 80
_MAX_NAME = 64
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_MEANT_AS_ADDRESS = re.compile(r"[0-9]+\.[0-9.]*", re.ASCII)
_Value = TypeVar("_Value", int, str, tuple[str, int])


def check(draft: Draft) -> Iterator[RankTableFault]:
    """Yield the faults for which the servers cannot be one job, in the order of the file."""
    if not draft.servers:
        yield RankTableFault("has 0 elements, expected at least 1", draft.listing)
        return
    seen: dict[str, str] = {}
    for server, place in zip(draft.servers, draft.places, strict=True):
        yield from name_faults(server.server_id, place.server_id)
        yield from _repeat(seen, server.server_id, place.server_id)
        yield from address_faults(server.host_ip, place.host_ip)
        yield from _device_faults(server, place)
    yield from _rank_faults(draft)
    yield from super_pod_faults(draft)


def _device_faults(server: Server, place: ServerPaths) -> Iterator[RankTableFault]:
    if not server.devices:
        yield RankTableFault("has 0 elements, expected at least 1", place.devices)
    seen: dict[int, str] = {}
    for device, path in zip(server.devices, place.device, strict=True):
        yield from _range_faults(device.device_id, MAX_RANKS - 1, f"{path}.device_id")
        yield from _repeat(seen, device.device_id, f"{path}.device_id")
        yield from address_faults(device.device_ip, f"{path}.device_ip")
        if device.super_device_id is not None:
            yield from _range_faults(
                device.super_device_id, _MAX_SUPER_DEVICE, f"{path}.super_device_id"
            )


def _rank_faults(draft: Draft) -> Iterator[RankTableFault]:
    placed = list(_placed(draft))
    if len(placed) > MAX_RANKS:
        yield RankTableFault(
            f"has {len(placed)} devices, expected at most {MAX_RANKS}", draft.listing
        )
        return
    seen: dict[int, str] = {}
    faults = [
        fault
        for path, device in placed
        for fault in (  # at most two for each of MAX_RANKS
            *_range_faults(device.rank, MAX_RANKS - 1, path),
            *_repeat(seen, device.rank, path),
        )
    ]
    yield from faults or _missing_ranks(seen) or _scattered_ranks(draft)


def _missing_ranks(seen: dict[int, str]) -> list[RankTableFault]:
    """Faults for ranks below `len(seen)` that are missing: then some are above it."""
    count = len(seen)
    missing = (rank for rank in range(count) if rank not in seen)
    too_big = sorted(rank for rank in seen if rank >= count)
    return [
        RankTableFault(
            f"got {big}, expected at most {count - 1} as the table has {count} device(s); rank "
            f"{absent} is missing",
            seen[big],
        )
        for big, absent in zip(too_big, missing, strict=True)
    ]


def _scattered_ranks(draft: Draft) -> Iterator[RankTableFault]:
    for server, place in zip(draft.servers, draft.places, strict=True):
        ranks = server.ranks
        gap = next(
            (low for low, high in zip(ranks, ranks[1:], strict=False) if high != low + 1), None
        )
        if gap is not None:
            yield RankTableFault(
                f"has rank {gap} but not rank {gap + 1}, which is on another server; the ranks of "
                "one server must follow one another",
                place.devices,
            )


def _placed(draft: Draft) -> Iterator[tuple[str, Device]]:
    for server, place in zip(draft.servers, draft.places, strict=True):
        yield from zip(place.rank, server.devices, strict=True)


def _range_faults(value: int, last: int, path: str) -> Iterator[RankTableFault]:
    if not 0 <= value <= last:
        yield RankTableFault(f"got {value}, expected an integer from 0 to {last}", path)


def _repeat(
    seen: dict[_Value, str], value: _Value, path: str, shown: str = ""
) -> Iterator[RankTableFault]:
    first = seen.setdefault(value, path)
    if first != path:
        shown = shown or f"{repr(value)[:_MOST_SHOWN]} is repeated"
        yield RankTableFault(f"{shown}; {first} has it already", path)


def super_pod_faults(draft: Draft) -> Iterator[RankTableFault]:
    """Yield the faults of the super pods, in themselves and with the servers."""
    if draft.super_pods:
        yield from _id_faults(draft)
        yield from _member_faults(draft)
        yield from _super_device_faults(draft)


def _id_faults(draft: Draft) -> Iterator[RankTableFault]:
    seen: dict[str, str] = {}
    for i, pod in enumerate(draft.super_pods):
        path = f"super_pod_list[{i}].super_pod_id"
        shown = repr(pod.super_pod_id[:_MAX_NAME])
        yield from _repeat(seen, pod.super_pod_id, path, f"{shown} is repeated")
        if not 0 < len(pod.super_pod_id) <= _MAX_NAME:
            yield RankTableFault(f"got {shown}, expected 1 to {_MAX_NAME} characters", path)
        if not pod.server_ids:
            yield RankTableFault(
                "has 0 elements, expected at least 1", f"super_pod_list[{i}].server_list"
            )


def _member_faults(draft: Draft) -> Iterator[RankTableFault]:
    known = dict.fromkeys(server.server_id for server in draft.servers)
    seen: dict[str, str] = {}
    for path, name in _members(draft):
        shown = repr(name[:_MAX_NAME])
        unknown = RankTableFault(f"got {shown}, which server_list does not name", path)
        repeats = list(_repeat(seen, name, path, f"{shown} is repeated"))
        yield from repeats if name in known else [unknown]
    for name in known:
        if name not in seen:
            yield RankTableFault(
                f"names no super pod for the server {name[:_MAX_NAME]!r}", "super_pod_list"
            )


def _members(draft: Draft) -> Iterator[tuple[str, str]]:
    for i, pod in enumerate(draft.super_pods):
        for j, name in enumerate(pod.server_ids):
            yield f"super_pod_list[{i}].server_list[{j}].server_id", name


def _super_device_faults(draft: Draft) -> Iterator[RankTableFault]:
    pod_of = {name: pod.super_pod_id for pod in draft.super_pods for name in pod.server_ids}
    seen: dict[tuple[str, int], str] = {}
    for server, place in zip(draft.servers, draft.places, strict=True):
        pod = pod_of.get(server.server_id)
        for device, path in zip(server.devices, place.device, strict=True):
            if pod is None or device.super_device_id is None:
                continue
            shown = f"{device.super_device_id} is repeated in the super pod {pod[:_MAX_NAME]!r}"
            key = (pod, device.super_device_id)
            yield from _repeat(seen, key, f"{path}.super_device_id", shown)


def name_faults(text: str, path: str) -> Iterator[RankTableFault]:
    """Yield a fault unless `text` is an IP address or a host name."""
    named = _HOST_NAME.fullmatch(text) and not _MEANT_AS_ADDRESS.fullmatch(text)
    if len(text) > _MAX_NAME or not (named or _is_address(text)):
        yield RankTableFault(
            f"got {text[:_MAX_NAME]!r}, expected an IP address or a host name (at most {_MAX_NAME} "
            "characters)",
            path,
        )


def address_faults(text: str | None, path: str) -> Iterator[RankTableFault]:
    """Yield a fault unless `text` is an IP address; None is valid."""
    if text is not None and not _is_address(text):
        yield RankTableFault(
            f"got {text[:_MAX_NAME]!r}, expected an IP address such as 192.168.100.101", path
        )


def _is_address(text: str) -> bool:
    _, scoped, scope = text.partition("%")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(text) <= _MAX_NAME and (not scoped or _HOST_NAME.fullmatch(scope) is not None)
