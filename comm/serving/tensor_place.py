"""Place of a tensor in an arena: found from an array, so that ranks can be told where it lies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..request_memory.tensor_arena import ArenaRegion, LeasedBytes


class Place(NamedTuple):
    """Where a tensor lies: its region, and the offset of its first byte in the arena."""

    region: ArenaRegion
    offset: int


def place_of(array: Array) -> Place | None:
    """Where an array of `ArenaRegion.array`, or a contiguous view of one, lies; None for any
    other.
    """
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, LeasedBytes):
        base = base.base
    if not isinstance(base, LeasedBytes) or not array.flags.c_contiguous:
        return None
    start = int(base.__array_interface__["data"][0])
    return Place(base.region, base.region.offset + array.__array_interface__["data"][0] - start)
