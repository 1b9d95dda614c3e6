"""What must hold in every rank table, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from .address import address_faults, name_faults
from .check_super_pods import super_pod_faults
from .draft import Draft, Place
from .fault import RankTableFault
from .server import Device, Server

MAX_RANKS = 65536
_MAX_SUPER_DEVICE = 2**32 - 1
_MOST_SHOWN = 80
_Value = TypeVar("_Value", int, str)


def check(draft: Draft) -> Iterator[RankTableFault]:
    """Everything in which the servers cannot be one job, in the order of the file."""
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


def _device_faults(server: Server, place: Place) -> Iterator[RankTableFault]:
    if not server.devices:
        yield RankTableFault("has 0 elements, expected at least 1", place.devices)
    seen: dict[int, str] = {}
    for device, path in zip(server.devices, place.device, strict=True):
        yield from _range_faults(device.device_id, MAX_RANKS - 1, f"{path}.device_id")
        yield from _repeat(seen, device.device_id, f"{path}.device_id")
        yield from address_faults(device.device_ip, f"{path}.device_ip")
        if device.super_device_id is not None:
            yield from _range_faults(device.super_device_id, _MAX_SUPER_DEVICE, f"{path}.super_device_id")


def _rank_faults(draft: Draft) -> Iterator[RankTableFault]:
    placed = list(_placed(draft))
    if len(placed) > MAX_RANKS:
        yield RankTableFault(f"has {len(placed)} devices, expected at most {MAX_RANKS}", draft.listing)
        return
    seen: dict[int, str] = {}
    faults = [fault for path, device in placed for fault in (  # at most two for each of MAX_RANKS
        *_range_faults(device.rank, MAX_RANKS - 1, path), *_repeat(seen, device.rank, path))]
    yield from faults or _missing_ranks(seen) or _scattered_ranks(draft)


def _missing_ranks(seen: dict[int, str]) -> list[RankTableFault]:
    """Ranks below `len(seen)` that are not there: then some are above it."""
    count = len(seen)
    missing = (rank for rank in range(count) if rank not in seen)
    too_big = sorted(rank for rank in seen if rank >= count)
    return [RankTableFault(f"got {big}, expected at most {count - 1} as the table has {count} device(s); "
                           f"rank {absent} is missing", seen[big])
            for big, absent in zip(too_big, missing, strict=True)]


def _scattered_ranks(draft: Draft) -> Iterator[RankTableFault]:
    for server, place in zip(draft.servers, draft.places, strict=True):
        ranks = server.ranks
        gap = next((low for low, high in zip(ranks, ranks[1:], strict=False) if high != low + 1), None)
        if gap is not None:
            yield RankTableFault(f"has rank {gap} but not rank {gap + 1}, which is on another server; "
                                 "the ranks of one server must follow one another", place.devices)


def _placed(draft: Draft) -> Iterator[tuple[str, Device]]:
    for server, place in zip(draft.servers, draft.places, strict=True):
        yield from zip(place.rank, server.devices, strict=True)


def _range_faults(value: int, last: int, path: str) -> Iterator[RankTableFault]:
    if not 0 <= value <= last:
        yield RankTableFault(f"got {value}, expected an integer from 0 to {last}", path)


def _repeat(seen: dict[_Value, str], value: _Value, path: str) -> Iterator[RankTableFault]:
    first = seen.setdefault(value, path)
    if first != path:
        yield RankTableFault(f"{repr(value)[:_MOST_SHOWN]} is repeated; {first} has it already", path)
