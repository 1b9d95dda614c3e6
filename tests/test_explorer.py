"""The explorer of interleavings: what it finds in short programs whose outcomes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
from explorer.exploration import DIED, Interleaving, explore
from explorer.machine import Act, Machine
from explorer.parties import Parties
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmesh.comm.job_memory import futex

pytestmark = pytest.mark.pure


class Program:
    """A module as the explorer finds it, and words that parties share."""

    def __init__(self) -> None:
        self.module = ModuleType("program")
        self.module.futex = futex
        self.machine = Machine(self.module)
        self.x, self.y, self.z = map(self.machine.word, "xyz")

    def outcomes(self, *acts: Act, **options: Any) -> set[tuple[object, ...]]:
        """All that the parties can return."""
        found = set()

        def note(results: Mapping[str, object]) -> None:
            found.add(tuple(results.values()))

        parties = {str(at): self._built(act) for at, act in enumerate(acts)}
        with self.machine:
            explore(self.machine, parties, note, **options)
        return found

    def sleep(self, word: Any, value: int) -> None:
        self.module.futex.wait(word.address, value)

    def wake(self, word: Any) -> None:
        self.module.futex.wake(word.address)

    @staticmethod
    def _built(act: Act) -> Callable[[], Act]:
        return lambda: act


@pytest.fixture
def program() -> Program:
    return Program()


def test_each_access_of_one_party_may_come_between_two_of_another(program: Program) -> None:
    def add() -> None:
        program.x[0] += 1

    def read() -> tuple[int, int]:
        return program.x[0], program.x[0]

    found = {pair for *_, pair in program.outcomes(add, add, read)}
    assert found == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}


def test_memory_is_sequentially_consistent(program: Program) -> None:
    def first() -> int:
        program.x[0] = 1
        return program.y[0]

    def second() -> int:
        program.y[0] = 1
        return program.x[0]

    assert program.outcomes(first, second) == {(0, 1), (1, 0), (1, 1)}


def test_words_that_become_shared_late_are_explored_as_well(program: Program) -> None:
    def writer() -> None:
        program.y[0] = 1
        program.y[0] = 2
        program.x[0] = 1

    def reader() -> int:
        return program.y[0] if program.x[0] == 0 else 9

    assert program.outcomes(writer, reader) == {(None, n) for n in (0, 1, 2, 9)}


def test_a_wake_before_the_sleep_is_lost_and_found(program: Program) -> None:
    def sleeper() -> None:
        if not program.x[0]:
            program.sleep(program.y, 0)

    def waker() -> None:
        program.x[0] = 1
        program.wake(program.y)

    with pytest.raises(Interleaving, match=r"0 waits for ever: sleep y\[0\](?s:.)*1: wake y"):
        program.outcomes(sleeper, waker)


def test_a_sleep_on_the_word_itself_loses_no_wake(program: Program) -> None:
    def sleeper() -> None:
        while not program.x[0]:
            program.sleep(program.x, 0)

    def waker() -> None:
        program.x[0] = 1
        program.wake(program.x)

    assert program.outcomes(sleeper, sleeper, waker) == {(None, None, None)}


def test_a_party_may_die_at_each_of_its_writes_and_its_memory_stays(
    program: Program,
) -> None:
    def writer() -> str:
        program.x[0] = 1
        program.x[0] = 2
        return "done"

    def heir() -> int:
        program.machine.await_death("0")
        return program.x[0]

    found = program.outcomes(writer, heir, mortal=["0"])
    assert found == {*((DIED, n) for n in range(3)), ("done", None)}


def test_time_passes_only_after_a_death(program: Program) -> None:
    def sleeper() -> str:
        program.sleep(program.x, 0)
        return "awake"

    def waker() -> None:
        program.x[0] = 1
        program.wake(program.x)

    assert program.outcomes(sleeper, waker, mortal=["1"]) == {("awake", None), ("awake", DIED)}
    with pytest.raises(Interleaving, match="waits for ever"):
        program.outcomes(sleeper)


def test_a_bound_of_switches_leaves_out_what_needs_more(program: Program) -> None:
    def writer() -> None:
        for number in range(1, 4):
            program.x[0] = number
            program.y[0] = number

    def reader() -> tuple[int, int]:
        return program.x[0], program.y[0]

    def found(switches: int | None) -> set[object]:
        return {pair for _, pair in program.outcomes(writer, reader, preemptions=switches)}

    assert {(0, 0), (3, 3)} <= found(0) < found(1) < found(None)
    assert found(None) == {(a, b) for a in range(4) for b in range(4) if b >= a - 1}


def test_an_error_tells_the_steps_that_lead_to_it(program: Program) -> None:
    def reader() -> None:
        if program.x[0]:
            raise ValueError("too late")

    def writer() -> None:
        program.x[0] = 5

    expected = r"0 fails by ValueError: too late, after:\n  1: store x\[0\] \[5\]\n  0: load x"
    with pytest.raises(Interleaving, match=expected):
        program.outcomes(reader, writer)


def test_a_party_that_looks_again_and_again_is_refused(program: Program) -> None:
    def looking() -> None:
        while not program.x[0]:
            pass

    with pytest.raises(Interleaving, match="0 has made more than 20 accesses"):
        program.outcomes(looking, most=20)


STEP = st.tuples(st.sampled_from(["load", "store", "add", "sleep", "wake"]), st.integers(0, 2))


def random_act(program: Program, steps: list[tuple[str, int]]) -> Act:
    """A program of these steps on three words; a step is left out where the last load found 2."""
    words = [program.x, program.y, program.z]

    def act() -> tuple[int, ...]:
        seen: tuple[int, ...] = ()
        for value, (kind, at) in enumerate(steps, 1):
            if seen[-1:] == (2,):
                seen = (*seen, 0)
            elif kind == "load":
                seen = (*seen, words[at][0])
            elif kind == "store":
                words[at][0] = value
            elif kind == "add":
                words[at][0] += 1
            elif kind == "sleep":
                program.sleep(words[at], 1)
            else:
                program.wake(words[at])
        return seen

    return act


@settings(max_examples=40)
@given(parties=st.lists(st.lists(STEP, max_size=4), min_size=2, max_size=3), mortal=st.booleans())
def test_orders_that_are_left_out_lead_to_no_other_outcome(
    parties: list[list[tuple[str, int]]], mortal: bool
) -> None:
    def outcomes() -> object:
        program = Program()
        acts = [random_act(program, steps) for steps in parties]
        try:
            return program.outcomes(*acts, mortal=["0"] if mortal else [])
        except Interleaving:
            return "a sleep without end"

    reduced = outcomes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Parties, "is_private", lambda *_: False)
        assert outcomes() == reduced
