"""A process group of torch.distributed in the order of positions, and arrays as tensors on its device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import UsageError
from ..rank import Rank
from .base import Array
from .parts import as_bytes, flat

_DEVICES = {"gloo": "cpu", "nccl": "cuda", "hccl": "npu"}


class Team:
    """A process group, whose own order is that of ranks, seen in the order of positions."""

    def __init__(self, backend: str, device: torch.device, members: tuple[int, ...], group: Any) -> None:
        self.backend, self.device, self.members, self.group = backend, device, members, group
        self.in_order = sorted(range(len(members)), key=members.__getitem__)
        """The position of each member in the group's own order."""

    def tensor(self, x: Array) -> torch.Tensor:
        """The array's elements where the backend wants them: the array itself, or a copy on the device."""
        flattened = flat(x)
        if x.dtype.name == "bfloat16":
            return self._wrapped(flattened.view(np.int16)).view(torch.bfloat16)
        return self._wrapped(flattened.view(np.uint8) if x.dtype.kind == "b" else flattened)

    def bytes(self, x: Array) -> torch.Tensor:
        """The same of the array's bytes."""
        return self._wrapped(as_bytes(x))

    def fill(self, out: Array, tensor: torch.Tensor) -> None:
        """Copy back what lies on a device."""
        if self.device.type != "cpu":
            as_bytes(out)[...] = tensor.view(torch.uint8).cpu().numpy()

    def _wrapped(self, x: Array) -> torch.Tensor:
        return torch.from_numpy(x if x.flags.writeable else x.copy()).to(self.device)


def find_device(backend: str, rank: Rank) -> torch.device:
    """Where the backend wants its tensors; UsageError where this machine has no such device."""
    kind = _DEVICES[backend]
    if backend == "hccl":
        try:
            import torch_npu  # noqa: F401  it gives torch its npu
        except ImportError as error:
            raise UsageError(f"collectives hccl need torch_npu, which cannot be imported ({error}): install it, or "
                             "choose others with RANKMESH_COLLECTIVES.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("collectives nccl need an NVIDIA GPU, and torch finds none: choose others with "
                         "RANKMESH_COLLECTIVES.")
    device = torch.device(kind, None if kind == "cpu" else rank.device)
    if kind != "cpu":
        getattr(torch, kind).setfind_device(device)
    return device
