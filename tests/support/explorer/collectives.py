"""Collectives in the explorer: ranks that meet in groups, and messages between two ranks, with the
real arena, shared words, group slots and mailboxes.

The modules are parameters, so that a test can plant faults in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives import collective_deadline
from rankmesh.comm.collectives.shared_memory import group_slots, mailbox, shared_word
from rankmesh.comm.collectives.shared_memory.layout import lay_out
from rankmesh.comm.collectives.shared_memory.shared_word import SharedWord
from rankmesh.comm.collectives.shared_memory.transfer import Transfer
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory import arena, progress
from rankmesh.comm.job_memory.arena import Arena, Cause, header_bytes
from rankmesh.comm.job_memory.progress import Progress, Stage

from .exploration import DIED, Explored, Results, explore
from .machine import Act, Machine

Build = Any
ABORTED = "a rank died"
_REASONS = (ABORTED, "whose process has ended", "after the first rank's entry")
_BYTES = 16


@dataclass
class Collectives:
    """The ranks of a job in one arena, and its supervisor."""

    ranks: int = 2
    rounds: int = 2
    word: ModuleType = shared_word
    slots: ModuleType = group_slots
    boxes: ModuleType = mailbox
    arena: ModuleType = arena
    deadline: float = 0.0
    """Seconds after which a rank waits no longer, without a supervisor; 0 for none."""

    preemptions: int | None = None

    def meet(self, mortal: bool = False) -> Explored:
        """All ranks fill their slots and read those of the others, in each round.

        With `mortal` one rank may die. A supervisor aborts the job, or a deadline passes.
        """
        with self._machine() as machine:
            names = [f"rank {rank}" for rank in range(self.ranks)]
            parties = {name: self._member(machine, rank) for rank, name in enumerate(names)}
            return self._explored(machine, parties, mortal)

    def send(self, mortal: bool = False) -> Explored:
        """Rank 0 sends rank 1 as many messages as there are rounds."""
        with self._machine() as machine:
            parties = {"rank 0": self._sender(machine), "rank 1": self._receiver(machine)}
            return self._explored(machine, parties, mortal)

    def _explored(self, machine: Machine, parties: dict[str, Build], mortal: bool) -> Explored:
        names = [*parties]
        if mortal and not self.deadline:
            parties["supervisor"] = self._supervisor(machine, names)
        return explore(
            machine,
            parties,
            _all_met,
            mortal=names if mortal else (),
            preemptions=self.preemptions,
            passes=self.rounds,
        )

    @contextmanager
    def _machine(self) -> Iterator[Machine]:
        with Machine(self.arena, self.word, progress, collective_deadline) as machine:
            members = tuple(range(self.ranks))
            self.layout = lay_out(header_bytes(self.ranks), [members], [(0, 1)])
            made = self.arena.Arena.create(self.ranks)
            self.file = made.fd
            machine.resize(made.fd, self.layout.size)
            yield machine

    def _arena(self, author: int) -> Arena:
        """The arena, whose bytes are those of the model in place of numpy's."""
        data = property(lambda mine: mine.words.cast("B"))
        kind = type("ModelArena", (self.arena.Arena,), {"data": data})
        mine: Arena = kind(self.file, self.ranks, author)
        mine.grow(self.layout.size)
        return mine

    def _view(self, rank: int) -> tuple[Arena, SharedWord]:
        """The arena and the words of a rank that sleeps at once: offers of its core change none."""
        mine = self._arena(rank + 1)
        kind = type("RestingWord", (self.word.SharedWord,), {"_offer_core": lambda *_: False})
        identity = Rank(rank, self.ranks, rank, self.ranks, "host", 0)
        word: SharedWord = kind(mine, identity, self.deadline)
        word.call = Call(kind=Kind.ALL_GATHER, group=RankGroup("all", tuple(range(self.ranks))))
        return mine, word

    def _member(self, machine: Machine, rank: int) -> Build:
        def build() -> Act:
            mine, word = self._view(rank)
            (region,) = self.layout.groups.values()
            group = self.slots.GroupSlots(mine, region, rank, word)

            def act() -> str:
                for number in range(1, self.rounds + 1):
                    machine.forget(number)
                    group.begin()
                    slots = group.next_slots()
                    slots[rank][:_BYTES] = _data(number, rank)
                    group.meet(7)
                    machine.forget("met", number)
                    for other in {*range(self.ranks)} - {rank}:
                        found = bytes(slots[other][:_BYTES])
                        assert found == _data(number, other), f"round {number}: {found.hex()}"
                return "met"

            return _or_aborted(act)

        return build

    def _sender(self, machine: Machine) -> Build:
        def build() -> Act:
            mine, word = self._view(0)
            box = self.boxes.Outbox(mine, self.layout.pairs[0, 1], word, 0, 1)
            transfer = Transfer(lambda *_: 7, word, [box], [])

            def act() -> str:
                for number in range(1, self.rounds + 1):
                    machine.forget(number)
                    transfer([np.frombuffer(_data(number, 0), np.uint8)], [])
                return "met"

            return _or_aborted(act)

        return build

    def _receiver(self, machine: Machine) -> Build:
        def build() -> Act:
            mine, word = self._view(1)
            box = self.boxes.Inbox(mine, self.layout.pairs[0, 1], word, 1, 0)
            transfer = Transfer(lambda *_: 7, word, [], [box])

            def act() -> str:
                found = np.zeros(_BYTES, np.uint8)
                for number in range(1, self.rounds + 1):
                    machine.forget(number)
                    transfer([], [found])
                    assert found.tobytes() == _data(number, 0), f"{number}: {found}"
                return "met"

            return _or_aborted(act)

        return build

    def _supervisor(self, machine: Machine, names: list[str]) -> Build:
        def build() -> Act:
            mine = self._arena(0)

            def act() -> None:
                (dead,) = machine.await_death(*names)
                rank = names.index(dead)
                Progress(mine, rank).stage = Stage.ENDED
                mine.abort(rank, Cause.DIED, ABORTED)

            return act

        return build


def _or_aborted(act: Act) -> Act:
    def guarded() -> object:
        try:
            return act()
        except RankFailed as error:
            return str(error)

    return guarded


def _data(number: int, rank: int) -> bytes:
    """Bytes of two words, which a copy moves in two steps."""
    return bytes([16 * rank + number]) * _BYTES


def _all_met(results: Results) -> None:
    """Without a death all ranks meet; after one each meets, or knows the reason."""
    ends = {name: end for name, end in results.items() if end is not DIED and name != "supervisor"}
    died = DIED in results.values()
    for name, end in ends.items():
        known = died and any(reason in str(end) for reason in _REASONS)
        assert end == "met" or known, f"{name} ends with {end!r}"
