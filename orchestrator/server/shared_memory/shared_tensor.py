"""Shared tensor: the place of one input or output in a client's region."""

from __future__ import annotations

from dataclasses import dataclass

from ....comm.errors import InputError
from ....comm.request_memory.tensor_arena import FilePlace
from .client_region import ClientRegion

REGION = "shared_memory_region"
OFFSET = "shared_memory_offset"
SIZE = "shared_memory_byte_size"

_MOST_STRINGS = 1 << 30
"""Bytes of strings, which are copied before they are read: their client may change them."""


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """`size` bytes at `offset` of a region."""

    region: ClientRegion
    offset: int
    size: int

    @classmethod
    def within(cls, region: ClientRegion, offset: int, size: int) -> SharedTensor:
        """The place; InputError where it reaches beyond the region."""
        if offset + size > region.size:
            raise InputError(
                f"{OFFSET} and {SIZE} reach beyond the end of the region '{region.name}'."
            )
        return cls(region, offset, size)

    def require(self, name: str, size: int | None) -> None:
        """InputError unless this is the place of the input `name`, which has so many bytes; None:
        any number, of strings.
        """
        if size is None and self.size > _MOST_STRINGS:
            raise InputError(
                f"the input '{name}' of BYTES has the {SIZE} {self.size}, expected "
                f"{_MOST_STRINGS} or less."
            )
        if size not in (None, self.size):
            raise InputError(
                f"the input '{name}' has the {SIZE} {self.size}, expected {size} for its shape."
            )

    def require_room(self, name: str, size: int) -> None:
        """InputError where the output `name`, which has so many bytes, does not fit."""
        if self.size < size:
            raise InputError(
                f"the output '{name}' has {size} bytes, and its {SIZE} is {self.size}: give it "
                "more."
            )

    def parameters(self, size: int) -> tuple[tuple[str, str | int], ...]:
        """The parameters of an output of so many bytes that has been written here."""
        return (REGION, self.region.name), (OFFSET, self.offset), (SIZE, size)

    def read(self, memory: memoryview, start: int = 0) -> None:
        """Fill `memory` with the bytes from `start` of the tensor on."""
        self.region.read(self.offset + start, memory)

    def write(self, data: memoryview, start: int = 0, source: FilePlace | None = None) -> None:
        """Write `data`, which fits, to `start` of the tensor; see ClientRegion.write."""
        self.region.write(self.offset + start, data, source)
