"""Rendezvous address of several hosts: rank 0's host and port, the job, and the ranks' hosts."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec

from ...rank_tables.table import RankTable
from ..errors import UsageError
from ..job.identity import LaunchIdentity

PORT = 29410
"""Rank 0's port where RANKMESH_PORT names no other."""

_ADDRESS, _PORT, _JOB, _HOSTS = (
    "RANKMESH_ADDRESS",
    "RANKMESH_PORT",
    "RANKMESH_JOB",
    "RANKMESH_HOSTS",
)
_LAST_PORT = 65535


class RendezvousAddress(msgspec.Struct, frozen=True):
    """Rank 0's address or host name, its port, and a name that only this job has.

    `hosts` has the expected host of each rank, as the launcher or the rank table says it, else
    nothing.
    """

    host: str
    port: int
    job: str
    hosts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def ip(self) -> str:
        """The IPv4 address of `host`; UsageError where there is none that other hosts can reach."""
        kind = socket.SOCK_STREAM
        try:
            found = socket.getaddrinfo(self.host, self.port, socket.AF_INET, kind)[0][4][0]
        except (OSError, UnicodeError) as error:
            raise UsageError(
                f"rank 0's host {self.host!r} has no IPv4 address that is known here ({error}). "
                f"Correct it (in a rank table: host_ip), or set {_ADDRESS} on all hosts."
            ) from error
        address = str(found)
        if address != self.host and ipaddress.ip_address(address).is_loopback:
            raise UsageError(
                f"rank 0's host name {self.host} is {address} here, which no other host can reach: "
                f"set {_ADDRESS} to its address on all hosts (in a rank table: host_ip)."
            )
        return address

    def expected(self, rank: int) -> str:
        """A remark on the expected host of a missing rank, for messages; or ""."""
        return f" (expected on {self.hosts[rank]})" if rank < len(self.hosts) else ""

    def variables(self) -> dict[str, str]:
        """The environment in which a launcher gives its ranks this; see `address_from`."""
        return {
            _ADDRESS: self.host,
            _PORT: str(self.port),
            _JOB: self.job,
            _HOSTS: ",".join(self.hosts),
        }


def address_of_table(table: RankTable, environ: Mapping[str, str]) -> RendezvousAddress:
    """The address for the ranks of a rank table.

    Its content names the job, rank 0's host_ip or server_id the host.
    """
    server = table.server_of(0)
    host = environ.get(_ADDRESS) or server.host_ip or server.server_id
    return RendezvousAddress(
        host,
        _port(environ),
        f"rank table {sha256(table.to_json()).hexdigest()[:32]}",
        tuple(
            other.host_ip or other.server_id
            for other in map(table.server_of, range(table.world_size))
        ),
    )


def address_from(identity: LaunchIdentity, environ: Mapping[str, str]) -> RendezvousAddress:
    """The address for the ranks of a launcher's job, by its variables.

    The user's RANKMESH_ADDRESS comes first.
    """
    host = environ.get(_ADDRESS) or {
        "torchrun": environ.get("MASTER_ADDR"),
        "Slurm": _first_node(environ),
    }.get(identity.launcher)
    if not host:
        said = f"{identity.launcher} does not say" if identity.launcher else "nothing says"
        raise UsageError(
            f"the ranks are on several hosts, and {said} where rank 0 is: set {_ADDRESS} to its "
            "address, or start them with --rank-table."
        )
    return RendezvousAddress(
        host, _port(environ), environ.get(_JOB) or identity.job, _hosts(identity, environ)
    )


def _hosts(identity: LaunchIdentity, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The expected host of each rank; empty where that is not known."""
    if environ.get(_HOSTS):
        hosts = tuple(environ[_HOSTS].split(","))
    elif identity.launcher == "torchrun":
        # It numbers its nodes, without names; each has the same number of ranks.
        hosts = tuple(
            f"torchrun's node {rank // identity.rank.local_size}"
            for rank in range(identity.rank.world_size)
        )
    else:
        hosts = nodes_of_tasks(environ) if identity.launcher == "Slurm" else ()
    return hosts if len(hosts) == identity.rank.world_size else ()


def _port(environ: Mapping[str, str]) -> int:
    text = environ.get(_PORT, str(PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _LAST_PORT):
        raise UsageError(
            f"{_PORT} is {text[:80]!r}, expected a port from 1 to {_LAST_PORT}, the same on all "
            "hosts."
        )
    return int(text)


def _first_node(environ: Mapping[str, str]) -> str | None:
    """The first name of a list such as node[07-09,12],other3: Slurm counts ranks from there."""
    match = re.match(
        r"([\w.-]+)(?:\[(\d+)[\d,-]*\]([\w.-]*))?", environ.get("SLURM_STEP_NODELIST", ""), re.ASCII
    )
    return "".join(filter(None, match.groups())) if match else None


_MOST = 1 << 17
_LIST = re.compile(r"([\w.-]+)(?:\[([\d,-]+)\]([\w.-]*))?(?:,|$)", re.ASCII)
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?(?:,|$)", re.ASCII)


def nodes_of_tasks(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The node of each task of a Slurm step, in rank order.

    Empty where the variables do not tell, as with other distributions than block.
    """
    if not variables.get("SLURM_DISTRIBUTION", "block").startswith("block"):
        return ()
    nodes = list(_names(variables.get("SLURM_STEP_NODELIST", "")))
    tasks = [
        int(count)
        for count, repeat in _TASKS.findall(variables.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(min(int(repeat or 1), _MOST))
    ]
    if len(nodes) != len(tasks) or sum(tasks) > _MOST:
        return ()
    return tuple(node for node, count in zip(nodes, tasks, strict=True) for _ in range(count))


def _names(text: str) -> Iterator[str]:
    """The names in a list such as node[07-09,12],other3."""
    for name, ranges, end in _LIST.findall(text):
        for part in ranges.split(",") if ranges else ("",):
            first, _, last = part.partition("-")
            if not part:
                yield name
            else:
                numbers = range(int(first), min(int(last or first), int(first) + _MOST) + 1)
                yield from (f"{name}{number:0{len(first)}}{end}" for number in numbers)
