"""`rankmesh rank-table`: makes, checks and merges rank tables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...comm.errors import UsageError
from ...comm.text import counted, show
from ..supervision import host

if TYPE_CHECKING:
    from ...rank_tables.review import Review
    from ...rank_tables.table import RankTable

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_MOST_IDS = 65536
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", show_default=False, help="Rank tables (JSON) of any version."
    ),
]
Devices = Annotated[
    str, typer.Option(metavar="IDS", help="The devices, in rank order: 0-7, or 0,1,4-5.")
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The server's IP address or host name; by default this host's first address.",
    ),
]
Version = Annotated[
    str | None,
    typer.Option(
        metavar="1.0|1.2",
        help="The version of the format; by default 1.0, or 1.2 with super pods.",
    ),
]
SuperDevices = Annotated[
    str | None,
    typer.Option(
        metavar="IDS",
        help="Version 1.2: the id of each device in its super pod, in the same order: the SDID "
        "that `npu-smi info -t spod-info` shows.",
    ),
]
SuperPod = Annotated[
    str, typer.Option(metavar="ID", help="Version 1.2: the super pod's id, with --super-devices.")
]
Folder = Annotated[str, typer.Option("--out", metavar="DIR", help="The folder of the new file.")]
app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Make, check and merge rank tables: JSON files that say which rank runs on which "
        "device of which server."
    ),
)


@app.command()
def make(
    devices: Devices,
    ip: Address = None,
    version: Version = None,
    super_devices: SuperDevices = None,
    super_pod: SuperPod = "0",
    out: Folder = ".",
) -> None:
    """Write the table of one server, as hccl_<ranks>p_<devices>_<address>.json, and print its path.

    The devices' own addresses come from /etc/hccn.conf. For several servers: make one on each, then
    merge.
    """
    from ...rank_tables import build
    from ...rank_tables.fault import RankTableFault

    if super_devices and version == "1.0":
        raise UsageError("--super-devices is for version 1.2: leave --version out, or say 1.2.")
    server = ip or _own_address()
    try:
        table = build.make(
            server,
            ids("--devices", devices),
            build.read_device_ips() if server in host.names() else {},
            ids("--super-devices", super_devices) if super_devices else (),
            super_pod,
        )
        _write(table, Path(out, build.file_name(table)), version)
    except RankTableFault as fault:
        raise UsageError(f"no rank table can be made of this: {fault}") from fault


@app.command()
def check(files: Files) -> None:
    """Print the contents of each table, or all its faults, each with its JSON path.

    Exit codes: 0 all files are right, 2 one has a fault.
    """
    from ...rank_tables.review import review

    reviews = [(file, review(file)) for file in files]
    for file, result in reviews:
        for line in _described(file, result):
            show(line)
    if any(result.faults for _, result in reviews):
        raise typer.Exit(UsageError.exit_code)


@app.command()
def merge(
    files: Files,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The new file; by default hccl_<servers>s_<ranks>p.json in this folder.",
        ),
    ] = None,
) -> None:
    """Write one table of all servers. Ranks follow the order of the files: 0 to 7, then 8 to 15,
    ...
    """
    from ...rank_tables import build
    from ...rank_tables.fault import RankTableFault
    from ..options.user_files import read_rank_table

    try:
        table = build.merge((file, read_rank_table(file)) for file in files)
    except RankTableFault as fault:
        raise UsageError(str(fault)) from fault
    _write(table, Path(out or build.file_name(table)), None)


def ids(option: str, text: str) -> list[int]:
    """The integers that `0-2,5` lists; UsageError names the option."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MOST_IDS - len(found):
            raise UsageError(
                f"{option} is {text[:80]!r}, expected ids such as 0-7 or 0,1,4-5 (at most "
                f"{_MOST_IDS})."
            )
        found += range(first, last + 1)
    return found


def _own_address() -> str:
    addresses = [name for name in host.names() if _is_outward(name)]
    if not addresses:
        raise UsageError(
            "this host has no address but its own loopback: say how others reach it with --ip "
            "ADDRESS."
        )
    return addresses[0]


def _is_outward(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return not address.is_loopback and not address.is_link_local


def _write(table: RankTable, path: Path, version: str | None) -> None:
    try:
        path.write_bytes(table.to_json(version))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Name another place with --out."
        ) from error
    show(f"wrote {path}: {_summary(table)}")


def _described(file: str, result: Review) -> Iterator[str]:
    from ...rank_tables.fault import MOST_FAULTS

    if result.table is None:
        yield f"{file}: {counted(len(result.faults), 'fault')}"
        yield from (
            f"  {': '.join(filter(None, (fault.path, fault.text)))}" for fault in result.faults
        )
        if len(result.faults) == MOST_FAULTS:
            yield "  there may be more; correct these first"
        return
    yield f"{file}: ok, {result.format}, {_summary(result.table)}"
    for server in result.table.servers:
        placed = sorted(server.devices, key=lambda device: device.rank)
        devices = ", ".join(str(device.device_id) for device in placed)
        ranks = (
            f"ranks {placed[0].rank} to {placed[-1].rank} on devices"
            if len(placed) > 1
            else (f"rank {placed[0].rank} on device")
        )
        yield f"  {server.server_id}: {ranks} {devices}"


def _summary(table: RankTable) -> str:
    return f"{counted(len(table.servers), 'server')}, {counted(table.world_size, 'rank')}"
