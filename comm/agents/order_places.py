"""Order places: tell where the tensors of an order from another host lie in memory of this one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..request_memory.owned_arena import Region
from ..serving.orders import InvalidRankData, TensorRef
from ..serving.tensor_spec import TensorLayout
from .order_messages import GivenTensor


class OrderPlaces(NamedTuple):
    """The inputs, and the room for one rank's outputs; None where there are none."""

    layout: TensorLayout | None
    inputs: Region | None
    room: Region | None

    def given(
        self, rank: int, outputs: Sequence[TensorRef], dtypes: Sequence[np.dtype[Any]]
    ) -> tuple[list[GivenTensor], int]:
        """Outputs as the other host is told of them, and how many bytes of the room they use.

        Raises InvalidRankData.
        """
        found, used = [], 0
        for ref, dtype in zip(outputs, dtypes, strict=False):
            size = dtype.itemsize * prod(map(abs, ref.shape))
            one = self._given(rank, ref, size)
            used = max(used, one.offset + size if one.input < 0 else 0)
            found.append(one)
        return found, used

    def _given(self, rank: int, ref: TensorRef, size: int) -> GivenTensor:
        start, end = ref.offset, ref.offset + size
        if self.room is not None and self.room.contains(start, end):
            return GivenTensor(start - self.room.offset, ref.shape)
        if self.inputs is not None and self.layout is not None and self.inputs.contains(start, end):
            inside = start - self.inputs.offset
            for index, part in enumerate(self.layout.parts):
                if part.offset <= inside and inside + size <= part.offset + part.size:
                    return GivenTensor(inside - part.offset, ref.shape, index)
        raise InvalidRankData(rank, "answered with memory that is not its request's")
