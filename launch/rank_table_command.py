"""`rankmesh rank-table`: makes, checks and merges the files that say which rank runs on which device."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..comm.counted import counted
from ..comm.errors import UsageError
from ..comm.visible import show
from . import options

if TYPE_CHECKING:
    from ..rank_tables.review import Review
    from ..rank_tables.table import RankTable

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_MOST_IDS = 65536
app = typer.Typer(
    no_args_is_help=True,
    help="Make, check and merge rank tables: JSON files that say which rank runs on which device of which server.")


@app.command()
def make(
    devices: options.TableDevices, ip: options.TableIp = None, version: options.TableVersion = None,
    super_devices: options.SuperDevices = None, super_pod: options.SuperPod = "0", out: options.TableFolder = ".",
) -> None:
    """Write the table of one server, as hccl_<ranks>p_<devices>_<address>.json, and print where.

    Devices' own addresses come from /etc/hccn.conf. For several servers: make one on each, then merge.
    """
    from ..rank_tables.build import file_name
    from ..rank_tables.build import make as make_table
    from ..rank_tables.fault import RankTableFault

    if super_devices and version == "1.0":
        raise UsageError("--super-devices is for version 1.2: leave --version out, or say 1.2.")
    server = ip or _own_address()
    try:
        table = make_table(server, ids("--devices", devices), _device_ips(server),
                           ids("--super-devices", super_devices) if super_devices else (), super_pod)
        _write(table, Path(out, file_name(table)), version)
    except RankTableFault as fault:
        raise UsageError(f"no rank table can be made of this: {fault}") from fault


@app.command()
def check(files: options.TableFiles) -> None:
    """Say what each table holds, or everything that is wrong with it and where (its JSON path).

    Exit codes: 0 all files are right, 2 one has a fault.
    """
    from ..rank_tables.review import review

    reviews = [(file, review(file)) for file in files]
    for file, result in reviews:
        for line in _described(file, result):
            show(line)
    if any(result.faults for _, result in reviews):
        raise typer.Exit(UsageError.exit_code)


@app.command()
def merge(files: options.TableFiles, out: options.TableOut = None) -> None:
    """Write one table of all servers; ranks follow the order of the files: 0 to 7, then 8 to 15, ..."""
    from ..rank_tables.build import file_name
    from ..rank_tables.build import merge as merge_tables
    from ..rank_tables.fault import RankTableFault
    from .rank_table import read_rank_table

    try:
        table = merge_tables((file, read_rank_table(file)) for file in files)
    except RankTableFault as fault:
        raise UsageError(str(fault)) from fault
    _write(table, Path(out or file_name(table)), None)


def ids(option: str, text: str) -> list[int]:
    """The integers that `0-2,5` lists; UsageError names the option."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MOST_IDS - len(found):
            raise UsageError(f"{option} is {text[:80]!r}, expected ids such as 0-7 or 0,1,4-5 (at most {_MOST_IDS}).")
        found += range(first, last + 1)
    return found


def _own_address() -> str:
    from .host import names

    addresses = [name for name in names() if _is_outward(name)]
    if not addresses:
        raise UsageError("this host has no address but its own loopback: say how others reach it with --ip ADDRESS.")
    return addresses[0]


def _is_outward(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return not address.is_loopback and not address.is_link_local


def _device_ips(server: str) -> dict[int, str]:
    """The devices' addresses, if the server is this host."""
    from ..rank_tables.hccn import read_device_ips
    from .host import names

    return read_device_ips() if server in names() else {}


def _write(table: RankTable, path: Path, version: str | None) -> None:
    try:
        path.write_bytes(table.to_json(version))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Name another place with --out.") from error
    show(f"wrote {path}: {_summary(table)}")


def _described(file: str, result: Review) -> Iterator[str]:
    from ..rank_tables.fault import MOST_FAULTS

    if result.table is None:
        yield f"{file}: {counted(len(result.faults), 'fault')}"
        yield from (f"  {': '.join(filter(None, (fault.path, fault.text)))}" for fault in result.faults)
        if len(result.faults) == MOST_FAULTS:
            yield "  there may be more; correct these first"
        return
    yield f"{file}: ok, {result.format}, {_summary(result.table)}"
    for server in result.table.servers:
        placed = sorted(server.devices, key=lambda device: device.rank)
        devices = ", ".join(str(device.device_id) for device in placed)
        ranks = f"ranks {placed[0].rank} to {placed[-1].rank} on devices" if len(placed) > 1 else (
            f"rank {placed[0].rank} on device")
        yield f"  {server.server_id}: {ranks} {devices}"


def _summary(table: RankTable) -> str:
    return f"{counted(len(table.servers), 'server')}, {counted(table.world_size, 'rank')}"
