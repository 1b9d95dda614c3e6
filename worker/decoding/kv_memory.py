"""Memory of keys and values: the slots of sequences in a file without a name.

The file belongs to the orchestrator, or to the agent of another host. Each layer has its keys and
values as `[slots, heads, capacity, head size]`, so that the slots in use are a view of the first
ones. Pages are touched as sequences grow. Of the rows that a step keeps there are two copies: a
step reads one, and writes the other.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import OutOfMemory
from ...comm.request_memory.tensor_arena import aligned
from ...compiler.element_types.value_types import TensorType


@dataclass(frozen=True, slots=True)
class KvMemory:
    """Keys and values by the names of the step graph's inputs, `[slots, ...]`; and the kept rows,
    in two copies, `[2, slots, ...]`.
    """

    slots: int
    slot_bytes: int
    states: Mapping[str, Array]
    kept: Mapping[str, Array]

    @property
    def head_size(self) -> int:
        """Numbers of one key."""
        return int(next(iter(self.states.values())).shape[-1])

    @classmethod
    def opened(
        cls,
        file: int,
        offset: int,
        size: int,
        slots: int,
        states: Mapping[str, TensorType],
        kept: Mapping[str, TensorType],
    ) -> KvMemory:
        """The memory in a part of a file; fewer slots where the part is smaller.

        The types are those of one slot. Raises OutOfMemory where there is no room for one.
        """
        per_slot = slot_bytes(states) + 2 * slot_bytes(kept)
        found = min(slots, (size - mmap.PAGESIZE * (len(states) + len(kept))) // per_slot)
        if found < 1:
            raise OutOfMemory(
                f"a sequence needs {per_slot} bytes for its keys and values, and there are {size}: "
                "give more memory (kv_memory), or let sequences be shorter (context)."
            )
        memory = memoryview(mmap.mmap(file, size, offset=offset))
        at, arrays = 0, dict[str, Array]()
        for name, kind in [*states.items(), *kept.items()]:
            shape = ((2, found) if name in kept else (found,)) + (kind.shape or ())
            end = at + prod(shape) * kind.dtype.itemsize
            arrays[name] = np.frombuffer(memory[at:end], kind.dtype).reshape(shape)
            at = aligned(end)
        return cls(
            found,
            per_slot,
            {name: arrays[name] for name in states},
            {name: arrays[name] for name in kept},
        )


def slot_bytes(kinds: Mapping[str, TensorType]) -> int:
    """The bytes that one slot takes."""
    return sum(kind.nbytes for kind in kinds.values())
