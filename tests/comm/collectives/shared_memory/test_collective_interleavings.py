"""Shared words, group slots and mailboxes in all orders of their accesses, and faults that these
orders show.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from explorer.collectives import Collectives
from explorer.exploration import Explored, Interleaving
from explorer.planted import planted

from rankmesh.comm.collectives.shared_memory import group_slots, mailbox, shared_word
from rankmesh.comm.job_memory import arena

pytestmark = pytest.mark.pure
Note = Callable[[Explored], None]

SOUND: dict[str, Callable[[], Explored]] = {
    "two ranks meet": Collectives(rounds=3).meet,
    "three ranks meet": Collectives(ranks=3, rounds=1, preemptions=1).meet,
    "one of two ranks dies": lambda: Collectives(rounds=2).meet(mortal=True),
    "no supervisor tells of the death": lambda: Collectives(deadline=60.0).meet(mortal=True),
    "messages": Collectives(rounds=3).send,
    "an end of a mailbox dies": lambda: Collectives(rounds=2).send(mortal=True),
}


@pytest.mark.parametrize("name", SOUND)
def test_no_order_of_accesses_loses_or_tears_anything(name: str, note_explored: Note) -> None:
    note_explored(SOUND[name]())


PUBLISH = (
    "        words[word] = value\n        futex.full_fence()\n        for reader in readers:\n"
)
EARLY_LOOK = """        asleep = [reader for reader in readers if words[reader] == word * 8]
        words[word] = value
        for reader in asleep:
"""
VALUE = "                value = words[word]\n"
COME = "                if come():\n                    return\n"
SIGN = "        words[mine + said] = signature\n"
MEET = "        shared_word.publish(mine, turn, self._readers)\n"
SIDE = "return self.slots[self.turn + 1 & 1]"
COUNT = "        self._shared_word.publish(self._mine, turn, self._readers)\n\n\nclass Inbox"
FILL = "        self._chunks[turn & 1][: data.size] = data\n"
EARLY_COUNT = "        self._shared_word.publish(self._mine, turn, self._readers)\n"
POINT = "            self.words[ABORT_WORD] = self._author + 1\n"
NOTE = "            start = _note(self._author)\n"


def word(*changes: tuple[str, str]) -> Collectives:
    return Collectives(word=planted(shared_word, *changes))


def slots(*changes: tuple[str, str]) -> Collectives:
    return Collectives(slots=planted(group_slots, *changes))


def boxes(*changes: tuple[str, str]) -> Collectives:
    return Collectives(rounds=3, boxes=planted(mailbox, *changes))


FAULTS: dict[str, tuple[Callable[[], Explored], str]] = {
    "sleepers before the word": (word((PUBLISH, EARLY_LOOK)).meet, "waits for ever: sleep"),
    "value behind the look": (word((VALUE + COME, COME + VALUE)).meet, "waits for ever: sleep"),
    "one slot": (slots((SIDE, "return self.slots[0]")).meet, "fails by AssertionError: round"),
    "turn before signature": (
        slots((SIGN, ""), (MEET, MEET + SIGN)).meet,
        "do not meet in the same collective",
    ),
    "overfull mailbox": (
        boxes(("    free = CHUNKS\n", "    free = CHUNKS + 1\n")).send,
        "rank 1 fails by AssertionError: 1",
    ),
    "count before chunk": (boxes((FILL, EARLY_COUNT + FILL)).send, "rank 1 "),
    "abort before its note": (
        lambda: Collectives(arena=planted(arena, (POINT, ""), (NOTE, POINT + NOTE))).meet(True),
        "ends with ''",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    exploring, said = FAULTS[name]
    with pytest.raises(Interleaving) as found:
        exploring()
    assert said in str(found.value).splitlines()[0], found.value
