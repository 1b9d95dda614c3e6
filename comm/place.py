"""Where the ranks of several hosts meet: rank 0's address and port, and the name of their job; and where each is."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from ..rank_tables.table import RankTable
from .errors import UsageError
from .identity import Identity
from .slurm_nodes import nodes_of_tasks

PORT = 29410
"""Rank 0's port where RANKMESH_PORT names no other."""

_ADDRESS, _PORT, _JOB, _HOSTS = "RANKMESH_ADDRESS", "RANKMESH_PORT", "RANKMESH_JOB", "RANKMESH_HOSTS"
_LAST_PORT = 65535


class Place(msgspec.Struct, frozen=True):
    """Rank 0's address or host name, its port, and what the ranks of this job alone have in common.

    `hosts` has for each rank where it is expected, as the launcher or the rank table says it; empty where neither does.
    """

    host: str
    port: int
    job: str
    hosts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def address(self) -> str:
        """The IPv4 address of `host`; UsageError where there is none that other hosts can reach."""
        try:
            found = socket.getaddrinfo(self.host, self.port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
        except (OSError, UnicodeError) as error:
            raise UsageError(f"rank 0's host {self.host!r} has no IPv4 address that is known here ({error}). Correct "
                             f"it (in a rank table: host_ip), or set {_ADDRESS} on all hosts.") from error
        address = str(found)
        if address != self.host and ipaddress.ip_address(address).is_loopback:
            raise UsageError(f"rank 0's host name {self.host} is {address} here, which no other host can reach: set "
                             f"{_ADDRESS} to its address on all hosts (in a rank table: host_ip).")
        return address

    def expected(self, rank: int) -> str:
        """Where a rank that has not come is expected, for messages; empty where that is not known."""
        return f" (expected on {self.hosts[rank]})" if rank < len(self.hosts) else ""

    def variables(self) -> dict[str, str]:
        """The environment by which a launcher tells its ranks; see `place_from`."""
        return {_ADDRESS: self.host, _PORT: str(self.port), _JOB: self.job, _HOSTS: ",".join(self.hosts)}


def place_of_table(table: RankTable, environ: Mapping[str, str]) -> Place:
    """Where the ranks of a rank table meet: its content names the job, rank 0's host_ip or server_id the host."""
    server = table.server_of(0)
    host = environ.get(_ADDRESS) or server.host_ip or server.server_id
    return Place(host, _port(environ), f"rank table {sha256(table.to_json()).hexdigest()[:32]}",
                 tuple(other.host_ip or other.server_id for other in map(table.server_of, range(table.world_size))))


def place_from(identity: Identity, environ: Mapping[str, str]) -> Place:
    """Where the ranks of a launcher's job meet, as its variables say; the user's RANKMESH_ADDRESS comes first."""
    host = environ.get(_ADDRESS) or {"torchrun": environ.get("MASTER_ADDR"), "Slurm": _first_node(environ)}.get(
        identity.launcher)
    if not host:
        raise UsageError(f"the ranks are on several hosts, and {identity.launcher or 'nobody'} does not say where rank "
                         f"0 is: set {_ADDRESS} to its address, or start them with --rank-table.")
    return Place(host, _port(environ), environ.get(_JOB) or identity.job, _hosts(identity, environ))


def _hosts(identity: Identity, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where each rank is expected; empty where that is not known."""
    if environ.get(_HOSTS):
        hosts = tuple(environ[_HOSTS].split(","))
    elif identity.launcher == "torchrun":  # which numbers its nodes, as many ranks on each, and has no names for them
        hosts = tuple(f"torchrun's node {rank // identity.rank.local_size}" for rank in range(identity.rank.world_size))
    else:
        hosts = nodes_of_tasks(environ) if identity.launcher == "Slurm" else ()
    return hosts if len(hosts) == identity.rank.world_size else ()


def _port(environ: Mapping[str, str]) -> int:
    text = environ.get(_PORT, str(PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _LAST_PORT):
        raise UsageError(f"{_PORT} is {text[:80]!r}, expected a port from 1 to {_LAST_PORT}, the same on all hosts.")
    return int(text)


def _first_node(environ: Mapping[str, str]) -> str | None:
    """The first name of a list such as node[07-09,12],other3: Slurm counts a step's ranks from there."""
    match = re.match(r"([\w.-]+)(?:\[(\d+)[\d,-]*\]([\w.-]*))?", environ.get("SLURM_STEP_NODELIST", ""), re.ASCII)
    return "".join(filter(None, match.groups())) if match else None
