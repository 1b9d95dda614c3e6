"""Device weights: keeps weights that may change as tensors of a device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from ..base import Operand
from .tensors import as_tensor, on_device


class DeviceWeights:
    """The weights of one segment; those of the host are copied to the same memory again."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._copies: dict[int, torch.Tensor] = {}

    def placed(self, weights: Sequence[Operand]) -> tuple[Hashable, Sequence[torch.Tensor]]:
        """See DeviceRunnable.placed."""
        with torch.inference_mode():
            tensors = [self._placed(at, one) for at, one in enumerate(weights)]
        return tuple(one.data_ptr() for one in tensors), tensors

    def _placed(self, at: int, weight: Operand) -> torch.Tensor:
        if not isinstance(weight, np.ndarray):
            return on_device(weight, self._device)
        given, kept = as_tensor(weight), self._copies.get(at)
        if kept is None or (kept.shape, kept.dtype) != (given.shape, given.dtype):
            kept = self._copies[at] = torch.empty_like(given, device=self._device)
        return kept.copy_(given)
