"""Settings of agents: say where an orchestrator listens for them, and how long it waits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from .setting_checks import SettingFault, check_count, check_seconds

RAY = "ray"
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agents of one orchestrator.

    - `listen`: this host's address and port, `10.0.0.1:29500`, as agents reach it.
    - `agents`: how many are to join before the ranks start; more may join later.
    - `key_file`: the file that `rankmesh key make` has written, by default RANKMESH_KEY_FILE.
    - `join_timeout`: the seconds until they have joined.
    - `host_timeout`: the seconds without a sign of life after which an agent is taken for lost.
    - `engine`: what starts the agents: `ray`, or nothing of ours. Ray starts as many as the models
      need, on the cluster at `ray_address`, by default that of this host or job; keys and the
      address to listen at are then made where none are given.
    - `trusted_networks`: where tensors go in clear, such as `10.0.0.0/24`; elsewhere encrypted.
    """

    listen: str = ""
    agents: int = 1
    key_file: str | None = None
    join_timeout: float = 120.0
    host_timeout: float = 5.0
    trusted_networks: tuple[str, ...] = ()
    engine: str = ""
    ray_address: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_count("agents", self.agents, least=0 if self.engine else 1)
        check_seconds("join_timeout", self.join_timeout)
        check_seconds("host_timeout", self.host_timeout)
        if self.listen or self.engine != RAY:
            _ = self.address
        for network in self.trusted_networks:
            _network(network)

    @property
    def address(self) -> tuple[str, int]:
        """The address and port of `listen`."""
        return split_address("listen", self.listen)

    def trusts(self, address: str) -> bool:
        """Whether tensors may go to an address in clear: to this host itself, or where declared.

        The listening address is this host's; a connection from it has not left the host.
        """
        if not address:
            return False
        if address == self.listen.rpartition(":")[0]:
            return True
        ip = ipaddress.ip_address(address)
        return ip.is_loopback or any(ip in _network(one) for one in self.trusted_networks)

    def opens(self, address: str) -> bool:
        """Whether ranks at an address may exchange tensors with other hosts in clear."""
        return self.trusts(address) and not ipaddress.ip_address(address).is_loopback


def split_address(key: str, text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`. Raises SettingFault."""
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT):
        raise SettingFault(key, f"got {text!r}, expected an address and a port: 10.0.0.1:29500.")
    return host, int(port)


def _network(text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise SettingFault("trusted_networks", f"got {text!r}: {error}.") from error
