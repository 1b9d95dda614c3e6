"""Which copy of each weight counts: a page that the owner writes and everybody who uses the weights reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.sharing.memory_file import MemoryFile, map_read_only

_WORD, _HEAD = 8, 64  # bytes
_COPY_BITS = 2


@dataclass(frozen=True, slots=True)
class Edition:
    """All weights as they are at one time. `generation` only grows; `version` is how many updates are in effect.

    `marks` has a number per weight that tells which copy it is in, and differs wherever the contents do.
    """

    generation: int
    version: int
    marks: tuple[int, ...]

    def copy_of(self, index: int) -> int:
        """The number of the copy that the weight is in: 0 as exported, 1 and 2 the ones that updates write to."""
        return self.marks[index] & (1 << _COPY_BITS) - 1


def mark(generation: int, copy: int) -> int:
    """The mark of a weight written to `copy` for `generation`."""
    return generation << _COPY_BITS | copy


class Control:
    """The current generation, and what it and the one before it consist of, for `count` weights."""

    def __init__(self, view: memoryview, memory: MemoryFile | None = None) -> None:
        self._view, self._memory = view, memory
        self.word = view[:_WORD].cast("Q")
        """The current generation, in its first element."""
        (self.count,) = struct.unpack_from("<Q", view, _WORD)
        self._slot = struct.Struct(f"<{1 + self.count}Q")

    @classmethod
    def create(cls, count: int) -> Control:
        """A new page, of generation 0."""
        memory = MemoryFile("weights-control", _HEAD + 2 * _WORD * (1 + count))
        struct.pack_into("<Q", memory.bytes, _WORD, count)
        return cls(memory.bytes, memory)

    @classmethod
    def open(cls, fd: int) -> Control:
        """The page behind a descriptor that the owner handed over."""
        try:
            control = cls(map_read_only(fd))
            control.read(0)
        except (ValueError, OSError, struct.error) as error:
            raise UsageError(f"the owner of the weights handed over what is no control page ({error}): run both with "
                             f"the same version of Rankmesh.") from error
        return control

    @property
    def fd(self) -> int:
        """The read-only descriptor to hand over, of a page made here."""
        assert self._memory is not None
        return self._memory.fd

    @property
    def version(self) -> int:
        """The current version; without a lease, for whoever only wants to know."""
        while True:
            generation = self.word[0]
            (version,) = struct.unpack_from("<Q", self._view, self._place(generation))
            if self.word[0] == generation:
                return int(version)

    def read(self, generation: int) -> Edition:
        """What a generation consists of; only for one that a lease holds."""
        version, *marks = self._slot.unpack_from(self._view, self._place(generation))
        return Edition(generation, version, tuple(marks))

    def publish(self, edition: Edition) -> None:
        """Write an edition, then make it the current one. Nobody may hold the one before the current one.

        Weights behind the first `count` are of other models, which nobody reads here.
        """
        marks = edition.marks[:self.count]
        self._slot.pack_into(self._view, self._place(edition.generation), edition.version, *marks)
        self.word[0] = edition.generation

    def _place(self, generation: int) -> int:
        return _HEAD + generation % 2 * self._slot.size

    def close(self) -> None:
        """Let go of the descriptor; the mapping stays."""
        if self._memory:
            self._memory.close()
