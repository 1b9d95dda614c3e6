"""The process group of all ranks that torch.distributed keeps for a process."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from ..rank import Rank

_LOOPBACK = "127.0.0.1"


def meet_all(backend: str, rank: Rank, exchange: Callable[[bytes], list[bytes]], limit: timedelta,
             address: str = "") -> None:
    """Make the default process group, unless the user's script has; rank 0 listens, on several hosts at `address`."""
    if dist.is_initialized():
        return
    on_one_host = rank.local_size == rank.world_size
    if on_one_host:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    server = None
    if rank.rank == 0:
        own = _LOOPBACK if on_one_host else address or _own_address()
        server = socket.create_server((own, 0), backlog=rank.world_size)
    host, port = server.getsockname() if server else ("", 0)
    host, _, number = exchange(f"{host}:{port}".encode())[0].decode().rpartition(":")
    store = dist.TCPStore(host, int(number), rank.world_size, server is not None, limit, wait_for_workers=False,
                          master_listen_fd=server.detach() if server else None)
    dist.init_process_group(backend, store=store, rank=rank.rank, world_size=rank.world_size, timeout=limit)
    atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _own_address() -> str:
    """The address that other hosts reach this one by; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return socket.gethostbyname(socket.gethostname())
        return str(probe.getsockname()[0])
