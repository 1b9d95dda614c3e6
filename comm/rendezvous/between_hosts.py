"""Collectives between hosts: joined over the network interface that leads to rank 0."""

from __future__ import annotations

import importlib.util
import os
import socket

from ..collectives.backend import Collectives, Membership
from ..collectives.registry import backend_named
from ..errors import RankFailed, RankmeshError, UsageError

_ANY_PORT = 9
_INTERFACE, _LOGGED = "GLOO_SOCKET_IFNAME", "TORCH_CPP_LOG_LEVEL"


def require_torch() -> None:
    """Raise UsageError where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "ranks on several hosts exchange tensors by torch.distributed, and torch is not "
            "installed: `pip install 'rankmesh[torch]'` on every host."
        )


def join_hosts(membership: Membership, backend: str) -> Collectives:
    """Join the collectives of a backend that connects hosts.

    Raises RankFailed where torch.distributed cannot connect the ranks.
    """
    if _INTERFACE not in os.environ:
        os.environ[_INTERFACE] = _interface(membership)
    os.environ.setdefault(_LOGGED, "ERROR")  # torch warns of each address without a name
    try:
        return backend_named(backend).join(membership)
    except RankmeshError:
        raise
    except (RuntimeError, OSError) as error:
        raise RankFailed(
            f"{membership.rank}: torch.distributed ({backend}) could not connect the ranks: "
            f"{error}. It needs TCP between the hosts, on any port, by the interface "
            f"{os.environ[_INTERFACE]} ({_INTERFACE})."
        ) from error


def _interface(membership: Membership) -> str:
    """The network interface that leads to rank 0's host; nothing is sent."""
    import psutil

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((membership.address, _ANY_PORT))
            mine = probe.getsockname()[0]
    except OSError as error:
        raise _unreachable(membership, str(error)) from error
    for name, listed in psutil.net_if_addrs().items():
        if mine in (one.address for one in listed):
            return name
    raise _unreachable(membership, f"no interface has the address {mine}")


def _unreachable(membership: Membership, why: str) -> RankFailed:
    return RankFailed(
        f"{membership.rank}: no network interface is found that leads to {membership.address}, the "
        f"address of rank 0's host: {why}. Name one in {_INTERFACE}."
    )
