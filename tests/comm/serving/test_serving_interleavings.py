"""Rings and caller slots in all orders of their accesses, and faults that these orders show."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from explorer.exploration import Explored, Interleaving
from explorer.planted import planted
from explorer.serving import Serving

from rankmesh.comm.serving import caller_slots, ring

pytestmark = pytest.mark.pure
Note = Callable[[Explored], None]

SOUND: dict[str, Callable[[], Explored]] = {
    "two orders ahead": Serving(orders=3).exchange,
    "two ranks": Serving(ranks=2, orders=1).exchange,
    "two ranks, two orders": Serving(ranks=2, preemptions=1).exchange,
    "a rank dies": lambda: Serving(orders=2).exchange(mortal=True),
    "one of two ranks dies": lambda: Serving(2, 1, preemptions=1).exchange(mortal=True),
    "an order is recalled": Serving(depth=3, preemptions=3).recall,
    "room is granted": Serving().room,
    "an error holds": Serving().hold,
    "an error holds one of two": Serving(ranks=2, preemptions=1).hold,
    "two tell a caller": Serving(orders=1).notify,
    "two tell a caller twice": Serving(preemptions=2).notify,
    "one rings another bell": lambda: Serving(preemptions=3).notify(beside=True),
}


@pytest.mark.parametrize("name", SOUND)
def test_no_order_of_accesses_loses_or_repeats_anything(name: str, note_explored: Note) -> None:
    note_explored(SOUND[name]())


WRITE = "        self._write(at + _ORDER_TEXT, order)\n"
MARK = "        words[at + _THERE] = _IS_THERE + number\n"
ANNOUNCE = "        self.given = words[_GIVEN_WORD] = number + 1\n"
TELL = "            self._sleepers.announce(rank, number)\n"
LOOK = "            if self._words[_GIVEN_WORD] <= number:\n"
STATES = "states = self._states[number % self.depth].tolist()\n        count"
OLD_STATES = """marks = self._states[number % self.depth]
        states = [AS_ORDERED_WORD + number if mark else 0 for mark in marks]
        count"""
TAKE = "        futex.order_fence()\n        at, line"
BEGIN = """        words[line + _BEGUN] = _HAS_BEGUN + number
        futex.full_fence()
        if words[line + _RECALL] and"""
LATE_BEGIN = """        asked = words[line + _RECALL]
        words[line + _BEGUN] = _HAS_BEGUN + number
        if asked and"""
ANSWER = """        if answer is not AS_ORDERED:
            self._write_answer(number, rank, answer)
"""
STATE = "        self._states[number % self.depth][rank] = word + number\n"
LAST = "        if answer.error or self.answered(number):\n"
GRANT = "        self._words[line + _GRANT_CHECK] = room.checksum\n"
GRANTED = "        self._tell(number, rank, GRANTED + number)\n"
RING_FAULTS = {
    "mark before data": ((WRITE, ""), (ANNOUNCE, ANNOUNCE + WRITE)),
    "announced before its mark": ((MARK, ""), (ANNOUNCE, ANNOUNCE + MARK)),
    "no look before sleep": ((LOOK, "            if True:\n"),),
    "look before notice": ((TELL + LOOK, LOOK + "    " + TELL),),
    "no wake": (("        if self._sleepers.wait_for(number):\n", "        if False:\n"),),
    "state of an earlier order": ((STATES, OLD_STATES),),
    "newest order for the next": ((TAKE, "        number = words[_GIVEN_WORD] - 1\n" + TAKE),),
    "answer behind its state": ((ANSWER, ""), (STATE, STATE + ANSWER)),
}


def with_faulty_ring(name: str) -> Callable[[], Explored]:
    return Serving(orders=3, ring=planted(ring, *RING_FAULTS[name])).exchange


def with_lost_update() -> Explored:
    """Two ranks count answers by an addition that is not atomic; the last one tells the caller."""
    count = STATE + "        self._words[100] += 1\n"
    last = "        if self._words[100] == self.world_size * (number + 1):\n"
    return Serving(2, 1, ring=planted(ring, (STATE, count), (LAST, last))).exchange()


def with_late_begin() -> Explored:
    """The rank looks for a recall before it has said that it begins."""
    return Serving(depth=3, ring=planted(ring, (BEGIN, LATE_BEGIN))).recall()


def with_early_grant() -> Explored:
    """The rank is told of its room before the words that say where it is are written."""
    return Serving(ring=planted(ring, (GRANTED, ""), (GRANT, GRANTED + GRANT))).room()


FAULTS: dict[str, tuple[Callable[[], Explored], str]] = {
    "mark before data": (with_faulty_ring("mark before data"), "rank 0 fails by"),
    "announced before its mark": (
        with_faulty_ring("announced before its mark"),
        "rank 0 fails by .* announced, and is not there",
    ),
    "no look before sleep": (with_faulty_ring("no look before sleep"), "waits for ever: sleep"),
    "look before notice": (with_faulty_ring("look before notice"), "waits for ever: sleep"),
    "no wake": (with_faulty_ring("no wake"), "waits for ever: sleep"),
    "state of an earlier order": (
        with_faulty_ring("state of an earlier order"),
        "orchestrator fails by",
    ),
    "newest order for the next": (
        with_faulty_ring("newest order for the next"),
        "rank 0 fails by .* as order",
    ),
    "answer behind its state": (
        with_faulty_ring("answer behind its state"),
        "orchestrator fails by",
    ),
    "lost update": (with_lost_update, "orchestrator waits for ever: take event"),
    "late begin": (with_late_begin, "'orchestrator': True, 'rank': .0, 1, 2."),
    "early grant": (with_early_grant, "rank fails by RankmeshError: the room"),
}


SLEEP = "            if not words[told]:\n                os.read(self.files[seat], 8)\n"
LOOKS = "        for _ in range(self._looks):\n            if words[told]:\n                break\n"
NOTIFY = "        words[told] = 1\n        futex.full_fence()\n        if words[told + _ASLEEP]:\n"
EARLY_LOOK = "        asleep = words[told + _ASLEEP]\n        words[told] = 1\n        if asleep:\n"
SLOT_FAULTS = {
    "caller sleeps without a look": (SLEEP, SLEEP.replace("not words[told]", "True")),
    "caller forgets news": (LOOKS, "        words[told] = 0\n" + LOOKS),
    "news for sleepers alone": (NOTIFY, EARLY_LOOK),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_ring_is_found(name: str) -> None:
    exploring, said = FAULTS[name]
    with pytest.raises(Interleaving) as found:
        exploring()
    first, *steps = str(found.value).splitlines()
    assert re.search(said, first), found.value
    assert any("rank" in step for step in steps) and any("orchestrator" in step for step in steps)


@pytest.mark.parametrize("name", SLOT_FAULTS)
@pytest.mark.parametrize("method", ["exchange", "notify"])
def test_a_fault_in_a_caller_slot_is_found(name: str, method: str) -> None:
    faulty = Serving(slots=planted(caller_slots, SLOT_FAULTS[name]))
    with pytest.raises(Interleaving, match="(orchestrator|caller) waits for ever: take event"):
        getattr(faulty, method)()
