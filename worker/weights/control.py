"""Control page: tells which copy of each weight is current; owners write it, clients map it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.host.sealed_memory import SealedMemory, map_read_only

_WORD, _HEAD = 8, 64  # bytes
_COPY_BITS = 2


@dataclass(frozen=True, slots=True)
class WeightSnapshot:
    """All weights as they are at one time.

    `generation` only grows; `version` is how many updates are in effect. `marks` has a number per
    weight that tells which copy it is in, and differs wherever the contents do.
    """

    generation: int
    version: int
    marks: tuple[int, ...]

    def copy_of(self, index: int) -> int:
        """The copy that the weight is in: 0 as exported, 1 and 2 those that updates write to."""
        return self.marks[index] & (1 << _COPY_BITS) - 1


def mark(generation: int, copy: int) -> int:
    """The mark of a weight written to `copy` for `generation`."""
    return generation << _COPY_BITS | copy


class ControlPage:
    """The current generation, and the snapshots of it and the one before, for `count` weights."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.word = view[:_WORD].cast("Q")
        """The current generation, in its first element."""
        (self.count,) = struct.unpack_from("<Q", view, _WORD)
        self._slot = struct.Struct(f"<{1 + self.count}Q")

    @classmethod
    def open(cls, fd: int) -> ControlPage:
        """Map the page behind a descriptor that the owner handed over. Raises UsageError."""
        try:
            control = cls(map_read_only(fd))
            control.read(0)
        except (ValueError, OSError, struct.error) as error:
            raise UsageError(
                f"the owner of the weights handed over what is no control page ({error}): run both "
                "with the same version of Rankmesh."
            ) from error
        return control

    @property
    def version(self) -> int:
        """The current version; without a lease, so it may have changed already."""
        while True:
            generation = self.word[0]
            (version,) = struct.unpack_from("<Q", self._view, self._place(generation))
            if self.word[0] == generation:
                return int(version)

    def read(self, generation: int) -> WeightSnapshot:
        """The snapshot of a generation that a lease holds."""
        version, *marks = self._slot.unpack_from(self._view, self._place(generation))
        return WeightSnapshot(generation, version, tuple(marks))

    def _place(self, generation: int) -> int:
        return _HEAD + generation % 2 * self._slot.size


class OwnControlPage(ControlPage):
    """The page of an owner, of generation 0 at first; `fd` is its descriptor, to hand over."""

    def __init__(self, count: int) -> None:
        self._memory = SealedMemory("weights-control", _HEAD + 2 * _WORD * (1 + count))
        self.fd = self._memory.fd
        struct.pack_into("<Q", self._memory.bytes, _WORD, count)
        super().__init__(self._memory.bytes)

    def publish(self, snapshot: WeightSnapshot) -> None:
        """Write a snapshot, then make it the current one.

        No reader may hold the generation before the current one. Weights behind the first `count`
        are of other models, and have no readers here.
        """
        marks = snapshot.marks[: self.count]
        place = self._place(snapshot.generation)
        self._slot.pack_into(self._view, place, snapshot.version, *marks)
        self.word[0] = snapshot.generation

    def close(self) -> None:
        """Close the descriptor; the mapping stays."""
        self._memory.close()
