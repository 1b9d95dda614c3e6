"""An array of a weight, wherever it lies: in memory of the host, or of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...comm.sharing.device_memory import DeviceArray

Array = NDArray[Any]
Stored: TypeAlias = "Array | DeviceArray"


def on_host(stored: Stored) -> Array:
    """Its values, to read: itself, or a copy of what is on the GPU."""
    return stored.read() if isinstance(stored, DeviceArray) else stored


def fill(target: Stored, read: Callable[[Array], None]) -> None:
    """Let `read` fill an array of the host, which is `target` itself or goes there."""
    if isinstance(target, DeviceArray):
        staged: Array = np.empty(target.shape, target.dtype)
        read(staged)
        target.write(staged)
    else:
        read(target)


def put(target: Stored, array: Array) -> None:
    """Take the values of an array of the same dtype and shape."""
    if isinstance(target, DeviceArray):
        target.write(array)
    else:
        np.copyto(target, array)


def put_sum(target: Stored, base: Stored, delta: Array) -> None:
    """Take the sum of two arrays of the same dtype and shape."""
    if isinstance(target, DeviceArray):
        target.write(np.add(on_host(base), delta))
    else:
        np.add(on_host(base), delta, out=target)
