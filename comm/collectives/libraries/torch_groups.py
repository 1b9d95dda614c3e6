"""Torch groups: process groups of torch.distributed, and arrays as tensors on their device."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from ...collective_call import Reduction
from ...errors import UsageError
from ...job.rank import Rank
from ..parts import Array, as_bytes, flat

_DEVICES = {"gloo": "cpu", "nccl": "cuda", "hccl": "npu"}


_OPERATIONS = {
    Reduction.SUM: dist.ReduceOp.SUM,
    Reduction.MAX: dist.ReduceOp.MAX,
    Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.PROD: dist.ReduceOp.PRODUCT,
}
_LOGICAL = {**_OPERATIONS, Reduction.SUM: dist.ReduceOp.MAX, Reduction.PROD: dist.ReduceOp.MIN}


def reduce_operation(reduction: Reduction, logical: bool) -> dist.ReduceOp:
    """The library's operation; `logical` for bools, which are reduced as bytes."""
    return (_LOGICAL if logical else _OPERATIONS)[reduction]


class TorchGroup:
    """A process group, in the order of positions.

    Its own order is that of ranks.
    """

    def __init__(
        self, backend: str, device: torch.device, members: tuple[int, ...], group: dist.ProcessGroup
    ) -> None:
        self.backend = backend
        self.device = device
        self.members = members
        self.group = group
        self.in_order = sorted(range(len(members)), key=members.__getitem__)
        """The position of each member in the group's own order."""

    def tensor(self, x: Array) -> torch.Tensor:
        """The elements of an array on the group's device: the array itself, or a copy."""
        flattened = flat(x)
        if x.dtype.name == "bfloat16":
            return self._wrapped(flattened.view(np.int16)).view(torch.bfloat16)
        return self._wrapped(flattened.view(np.uint8) if x.dtype.kind == "b" else flattened)

    def bytes(self, x: Array) -> torch.Tensor:
        """The bytes of an array, likewise."""
        return self._wrapped(as_bytes(x))

    def fill(self, out: Array, tensor: torch.Tensor) -> None:
        """Copy the tensor of a device back into its array."""
        if self.device.type != "cpu":
            as_bytes(out)[...] = tensor.view(torch.uint8).cpu().numpy()

    def _wrapped(self, x: Array) -> torch.Tensor:
        return torch.from_numpy(x if x.flags.writeable else x.copy()).to(self.device)


def find_device(backend: str, rank: Rank) -> torch.device:
    """The device of a backend; UsageError where this machine has no such device."""
    kind = _DEVICES[backend]
    if backend == "hccl":
        try:
            import torch_npu  # noqa: F401  it gives torch its npu
        except ImportError as error:
            raise UsageError(
                f"collectives hccl need torch_npu, which cannot be imported ({error}): install it, "
                "or choose others with RANKMESH_COLLECTIVES."
            ) from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "collectives nccl need an NVIDIA GPU, and torch finds none: choose others with "
            "RANKMESH_COLLECTIVES."
        )
    device = torch.device(kind, None if kind == "cpu" else rank.device)
    if kind != "cpu":
        getattr(torch, kind).set_device(device)
    return device


_LOOPBACK = "127.0.0.1"


def join_world(
    backend: str,
    rank: Rank,
    exchange: Callable[[bytes], list[bytes]],
    limit: timedelta,
    address: str = "",
) -> None:
    """Make the default process group, unless the user's script has.

    Rank 0 listens: on one host at the loopback address, on several at `address`.
    """
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
    store = dist.TCPStore(
        host,
        int(number),
        rank.world_size,
        server is not None,
        limit,
        wait_for_workers=False,
        master_listen_fd=server.detach() if server else None,
        use_libuv=False,  # torch 2.6 has no sockets of others with it
    )
    dist.init_process_group(
        backend, store=store, rank=rank.rank, world_size=rank.world_size, timeout=limit
    )
    atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _own_address() -> str:
    """The address by which other hosts reach this one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return socket.gethostbyname(socket.gethostname())
        return str(probe.getsockname()[0])
