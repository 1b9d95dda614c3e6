"""Host costs: keeps the constants that `rankmesh calibrate` measures, and reads them for plans.

Without them, plans are made with estimates. A file of another host's processor is not used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from ....comm.decoding import guarded
from ....comm.host.own_folder import cache_home
from .costs import HostCosts

_Seconds = Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)]


class StoredCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The constants of a host for a number of ranks that work at once, in seconds."""

    latency: _Seconds
    exchanged_byte: _Seconds
    flop: _Seconds
    convolved_flop: _Seconds
    byte: _Seconds
    call: _Seconds
    image_byte: _Seconds


class CostsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a user: a processor, and its constants by number of ranks."""

    processor: str
    costs: dict[str, StoredCosts]


def costs_path() -> str:
    """The file of this user's measured constants."""
    return os.path.join(cache_home(), "host-costs.json")


def processor() -> str:
    """The processor of this host and its number of cores, which costs depend on."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        lines = []
    names = [value.strip() for key, _, value in lines if key.strip() == "model name"]
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} cores"


class PlanCosts(NamedTuple):
    """The constants for a plan: where all its ranks work at once, and for a rank that is alone.

    `measured` says whether they are this host's, or estimates.
    """

    together: HostCosts = HostCosts()
    alone: HostCosts = HostCosts()
    measured: bool = False


def plan_costs(ranks: int) -> PlanCosts:
    """The constants for plans of `ranks` ranks."""
    stored = _read()
    if stored is None or not {"1", str(ranks)} <= stored.costs.keys():
        return PlanCosts()
    together, alone = (
        HostCosts(**msgspec.structs.asdict(stored.costs[name])) for name in (str(ranks), "1")
    )
    return PlanCosts(together, alone, True)


def keep_costs(found: Mapping[int, HostCosts]) -> str:
    """Add measured constants to the file, by number of ranks; its path."""
    stored = _read()
    costs = dict(stored.costs) if stored is not None else {}
    for ranks, one in found.items():
        costs[str(ranks)] = StoredCosts(**msgspec.structs.asdict(one))
    path = costs_path()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    aside = f"{path}.{os.getpid()}"
    with open(aside, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(CostsFile(processor(), costs))))
    os.replace(aside, path)
    return path


COSTS_DECODER = guarded(msgspec.json.Decoder(CostsFile))


def _read() -> CostsFile | None:
    """The file, if there is one, it is sound, and it is of this host's processor."""
    try:
        with open(costs_path(), "rb") as file:
            stored = COSTS_DECODER(file.read(1 << 20))
    except (OSError, msgspec.DecodeError):
        return None
    return stored if stored.processor == processor() else None
