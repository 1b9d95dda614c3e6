"""Group slots: the barrier of a group, and the buffers that its members fill and read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...job_memory.arena import Arena, Cause, waiting_word
from ...job_memory.futex import order_fence
from ...job_memory.progress import Progress
from ..signature import describe
from .layout import SLOT_BYTES, GroupRegion
from .shared_word import SharedWord

Bytes = NDArray[np.uint8]


class GroupSlots:
    """One member's side of a group's region.

    Members count their rounds (`turn`) and use their two slots by turns. A slot that was filled
    for turn t may be read until its reader publishes t + 1. It is filled again for t + 2, once all
    members have published t + 1. So one barrier for each turn is enough. `slots` are those of even
    turns, then those of odd ones.
    """

    def __init__(
        self, arena: Arena, region: GroupRegion, rank: int, shared_word: SharedWord
    ) -> None:
        self.members = region.members
        self.size = len(region.members)
        self.position = region.members.index(rank)
        self.turn = 0
        self._first_turn = 0
        self._arena = arena
        self._words = arena.words
        self._shared_word = shared_word
        self._lines = [region.line(p) // 8 for p in range(self.size)]
        others = [p for p in range(self.size) if p != self.position]
        self._readers = [waiting_word(region.members[p]) for p in others]
        # Each member begins with the one behind it: so sleepers spread over the words.
        self._peers = [self._lines[p] for p in others[self.position :] + others[: self.position]]
        self.slots: Sequence[Sequence[Bytes]] = tuple(
            tuple(
                arena.data[start : start + SLOT_BYTES]
                for start in (region.slot(p, parity) for p in range(self.size))
            )
            for parity in (0, 1)
        )

    def begin(self) -> None:
        """Begin a new collective with the next round."""
        self._first_turn = self.turn + 1

    def next_slots(self) -> Sequence[Bytes]:
        """The slots of all members for the next round.

        Fill the own one before it, and read the others after it.
        """
        return self.slots[self.turn + 1 & 1]

    def meet(self, signature: int) -> None:
        """Publish that the slot is filled, and wait until the slots of all members are."""
        words, shared_word = self._words, self._shared_word
        self.turn = turn = self.turn + 1
        mine = self._lines[self.position]
        said = 1 + (turn & 1)
        words[mine + said] = signature
        shared_word.publish(mine, turn, self._readers)
        for line in self._peers:
            if words[line] < turn:
                shared_word.wait(line, turn, self)
        order_fence()
        for line in self._peers:
            if words[line + said] != signature:
                self._complain(line, signature, words[line + said])

    def missing(self) -> Sequence[int]:
        """The members that have not come to this round."""
        return [
            r
            for r, line in zip(self.members, self._lines, strict=True)
            if self._words[line] < self.turn
        ]

    def entered(self, rank: int) -> bool:
        """Whether `rank` came to this collective's first round."""
        return self._words[self._lines[self.members.index(rank)]] >= self._first_turn

    def first_entry(self) -> int:
        """When the first member entered this collective."""
        return min(Progress(self._arena, r).entered_at for r in self.members if self.entered(r))

    def _complain(self, line: int, signature: int, theirs: int) -> None:
        """Fail because a member came for another collective."""
        rank, other = self.members[self.position], self.members[self._lines.index(line)]
        pairs = sorted(((rank, signature), (other, theirs)))
        said = " but ".join(
            f"rank {r} entered {Progress(self._arena, r).read().entered}: {describe(s)}"
            for r, s in pairs
        )
        self._shared_word.fail(
            other,
            Cause.MISMATCH,
            (
                f"the ranks of group {self.members} do not meet in the same collective: {said}. "
                "Check that all ranks run shards of one export"
            ),
        )
