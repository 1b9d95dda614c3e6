"""Placed outputs: those of one rank where it wrote them, one behind the other in a region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...comm.arrays import Array
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.tensor_spec import TensorSlice

_COPIED = 1 << 14
"""Bytes of an output that are copied sooner than they are read where they lie."""


@dataclass(frozen=True, eq=False, slots=True)
class OutputLayout:
    """Where outputs lie in their region, by name. Equal is only the same object."""

    slices: Mapping[str, TensorSlice]


class PlacedOutputs:
    """Outputs for a reader that wants their bytes: it spares the arrays."""

    __slots__ = ("_region", "layout", "leased")

    def __init__(self, layout: OutputLayout, region: Region) -> None:
        self.layout, self._region = layout, region
        self.leased = True
        """Whether they may be read where they lie for as long as the reader likes."""

    def arrays(self) -> dict[str, Array]:
        """The outputs as arrays that keep the memory they lie in."""
        array = self._region.array
        return {
            name: array(offset, dtype, shape)
            for name, (offset, dtype, shape, _) in self.layout.slices.items()
        }

    def elements(self, name: str) -> bytes | memoryview:
        """The elements of one output as bytes: few are copied, which takes less time."""
        offset, dtype, shape, size = self.layout.slices[name]
        if size <= _COPIED or not self.leased:
            return self._region.read(offset, size)
        return self._region.array(offset, dtype, shape).reshape(-1).view("u1").data
