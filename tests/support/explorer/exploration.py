"""Exploration: runs lock-free code through all orders in which processes may access shared memory,
depth first, each state once, and finds the orders that end wrongly.

The real classes run over a memory of a model (`machine.py`). Every access to a word, every sleep
and every wake is one step, and `explore` tries every order of the steps of two
or three parties, with the death of a party at any step. The memory of a dead party stays.

Only sequential consistency is explored: each access takes effect at once, for all parties. So a
missing fence is not found; a wrong order of accesses in the program is. A party is one thread in a
process of its own, and all that it shares with others is in the memory of the model. Copies of
bytes take effect in two halves. Clocks advance with each look, and by 100 s where all parties wait.

    from explorer.exploration import explore
    from explorer.machine import Machine

    machine = Machine(steps)              # the modules that use the model's futex, mmap, os, ...
    with machine:
        fd = machine.file("steps", 4096)  # or what the class itself creates
        def teller() -> Act:              # makes its views, which is no step
            mine = Steps(fd)
            return lambda: mine.publish(7)  # every access in here is a step
        def reader() -> Act:
            mine = Steps(fd)
            return lambda: mine.take()
        found = explore(machine, {"teller": teller, "reader": reader}, right)

`right` gets the results of the parties at each end, and raises AssertionError where they are wrong.
An error that a party raises, and a sleep from which no party wakes, are found as well. The error,
`Interleaving`, has the steps that lead there. `mortal=["teller"]` lets that party die, and
`preemptions=2` leaves out orders with more than two switches away from a party that could go on.
In a loop, `machine.forget(number)` says that a party's own state is `number` alone: orders that
differ in nothing else are then explored once. Without it their number grows with each turn.
A party may watch another (`machine.await_death`) and end it (`machine.kill`), as a supervisor does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from .machine import CLOCK, PASSED_NS, Access, Act, Machine
from .parties import Parties

DEAD = None
"""Position of a party that has died. Others are at the number of a node, or ~number in a sleep."""

Position = int | None
Results = Mapping[str, object]
"""By name: the result of each party; DIED of those that have died."""

DIED = "died"


Way = list[Callable[[], str]]
"""The steps that lead to a state, as text."""


class State(NamedTuple):
    """A moment: the number of the memory's contents, where each party is, how often time may still
    pass, the party that ran last, and how often it may still be left while it could go on.
    """

    memory: int
    positions: tuple[Position, ...]
    passes: int
    last: int
    switches: int


class Move(NamedTuple):
    """A step: what is done, by which party, and the state behind it."""

    text: Callable[[], str]
    state: State


@dataclass
class Explored:
    """How much was explored: states, steps between them, runs of the parties' code, ends."""

    states: int = 0
    steps: int = 0
    runs: int = 0
    ends: int = 0

    def __str__(self) -> str:
        return f"{self.states} states, {self.steps} steps, {self.runs} runs, {self.ends} ends"


class Interleaving(AssertionError):
    """An order of steps that ends wrongly."""


def explore(
    machine: Machine,
    parties: Mapping[str, Callable[[], Act]],
    right: Callable[[Results], object] = lambda results: None,
    *,
    mortal: Collection[str] = (),
    preemptions: int | None = None,
    passes: int = 1,
    most: int = 500,
) -> Explored:
    """Try all orders. Raises Interleaving at the first that ends wrongly.

    One of `mortal` may die. Then, `passes` times, sleeps end by time where no party can go on;
    else none may need that. A party makes at most `most` accesses.
    """
    machine.frozen = True
    try:
        exploration = Exploration(machine, Parties(machine, dict(parties), most), right)
        switches = -1 if preemptions is None else preemptions
        return exploration.run({*mortal}, passes, switches)
    finally:
        machine.frozen = False


class Exploration:
    """The states that were reached, and the way to the one that is looked at."""

    def __init__(
        self, machine: Machine, parties: Parties, right: Callable[[Results], object]
    ) -> None:
        self._machine, self._parties, self._right = machine, parties, right
        self._nodes = parties.nodes
        self._slots: dict[int, int] = {}
        self._memories: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._slot(CLOCK)

    def run(self, mortal: set[str], passes: int, switches: int) -> Explored:
        """All orders; again, where more has become known of what parties may do."""
        self._mortal = {party for party, name in enumerate(self._parties.names) if name in mortal}
        while True:
            self._parties.grown = False
            first = self._number(tuple(self._machine.initial.get(key, 0) for key in self._slots))
            start = State(first, tuple(self._parties.roots), passes, -1, switches)
            found = self._search(start)
            if not self._parties.grown:
                found.runs = len(self._nodes)
                return found

    def _search(self, start: State) -> Explored:
        found, seen = Explored(), {start}
        texts: Way = []
        left = [iter(self._moves(start, found, texts))]
        while left:
            move = next(left[-1], None)
            if move is None:
                left.pop()
                texts[-1:] = []
                continue
            found.steps += 1
            if move.state not in seen:
                seen.add(move.state)
                texts.append(move.text)
                left.append(iter(self._moves(move.state, found, texts)))
        found.states = len(seen)
        return found

    def _moves(self, state: State, found: Explored, way: Way) -> list[Move]:
        try:
            self._refuse_errors(state)
            moves, dying = self._steps(state)
            if not moves:
                moves = self._time_passes(state)
            if not moves:  # whatever might die now, this must do
                found.ends += 1
                self._judge(state)
            return moves + self._deaths(state, dying)
        except AssertionError as error:
            said = "".join(f"\n  {text()}" for text in way)
            raise Interleaving(f"{error or type(error).__name__}, after:{said}") from None

    def _steps(self, state: State) -> tuple[list[Move], Iterable[int]]:
        """The steps that are possible now, or one whose order does not matter; and the parties
        that may die now in place of it.
        """
        active = [
            (party, number, access)
            for party, number in enumerate(state.positions)
            if number is not None
            and number >= 0
            and (access := self._nodes[number].access) is not None
        ]
        others = [at if at >= 0 else ~at for at in state.positions if at is not None]
        for party, number, access in active:
            if self._parties.is_private(party, access, others):
                return self._step(state, party, number, access), [party]
        able = {party: self._step(state, party, number, access) for party, number, access in active}
        moves = [
            move._replace(state=after)
            for party, steps in able.items()
            for move in steps
            if (after := self._charged(state, party, move.state, able)) is not None
        ]
        return moves, self._mortal

    def _charged(
        self, state: State, party: int, after: State, able: Mapping[int, list[Move]]
    ) -> State | None:
        """The state with its switch counted; None where there are no more to be had."""
        if state.switches < 0:
            return after
        left = state.switches
        if party != state.last and able.get(state.last):
            left -= 1
        return after._replace(last=party, switches=left) if left >= 0 else None

    def _step(self, state: State, party: int, number: int, access: Access) -> list[Move]:
        """All that an access can lead to."""
        memory = self._memories[state.memory]
        slots = [self._slot(key) for key in access.keys]
        now = tuple(
            self._value(memory, slot, key) for slot, key in zip(slots, access.keys, strict=True)
        )
        answer: object = None
        match access.kind:
            case "load":
                answer = now
            case "store":
                new = (
                    old & ~mask | value & mask
                    for old, value, mask in zip(now, access.values, access.masks, strict=True)
                )
                state = self._stored(state, slots, tuple(new))
            case "add":
                state = self._stored(state, slots, (now[0] + access.values[0],))
            case "take":
                if not now[0]:
                    return []
                answer, state = now[0], self._stored(state, slots, (0,))
            case "await":
                if not any(now):
                    return []
                answer = now
            case "sleep":
                if now[0] & 0xFFFFFFFF == access.values[0]:
                    return [self._moved(state, party, number, ~number)]
                answer = False
            case "wake":
                return self._woken(state, party, number, access)
            case "kill":
                killed = self._parties.names.index(self._machine.deaths[access.keys[0]])
                state = self._died(state, killed, slots)
        return [self._moved(state, party, number, self._parties.after(number, answer))]

    def _moved(self, state: State, party: int, number: int, to: int) -> Move:
        positions = (*state.positions[:party], to, *state.positions[party + 1 :])
        return Move(lambda: self._told(party, number, to), state._replace(positions=positions))

    def _woken(self, state: State, party: int, number: int, access: Access) -> list[Move]:
        """A wake: of each choice of sleepers, where there are more than it wakes."""
        sleepers = [
            other
            for other, at in enumerate(state.positions)
            if at is not None and at < 0 and self._access(at).keys == access.keys
        ]
        moves = []
        for chosen in combinations(sleepers, min(access.values[0], len(sleepers))):
            after = self._awake(state, chosen, True)
            moves.append(self._moved(after, party, number, self._parties.after(number, None)))
        return moves

    def _awake(self, state: State, sleepers: Collection[int], answer: bool) -> State:
        positions = [
            self._parties.after(~at, answer) if party in sleepers and at is not None else at
            for party, at in enumerate(state.positions)
        ]
        return state._replace(positions=tuple(positions))

    def _deaths(self, state: State, parties: Iterable[int]) -> list[Move]:
        """One of these parties dies, if it may, unless another has: before each step that others
        could miss, or behind its last one. Deaths before loads are like those behind them.
        """
        if not self._mortal or DEAD in state.positions:
            return []
        moves = []
        for party in self._mortal.intersection(parties):
            access = self._access(state.positions[party])
            if access is None or access.kind != "load":
                name = self._parties.names[party]
                after = self._died(state, party, [self._slot(self._machine.death_key(name))])
                moves.append(Move(lambda name=name: f"{name}: dies", after))
        return moves

    def _died(self, state: State, party: int, slots: list[int]) -> State:
        at = state.positions[party]
        if at is DEAD:
            return state
        positions = (*state.positions[:party], DEAD, *state.positions[party + 1 :])
        return self._stored(state._replace(positions=positions), slots, (1,))

    def _time_passes(self, state: State) -> list[Move]:
        """All sleeps end, as a party has died."""
        asleep = [party for party, at in enumerate(state.positions) if at is not None and at < 0]
        if not asleep or not state.passes or DEAD not in state.positions:
            return []
        after = self._awake(state, asleep, False)._replace(passes=state.passes - 1)
        slot = self._slot(CLOCK)
        clock = self._value(self._memories[after.memory], slot, CLOCK)
        return [Move(lambda: "time passes", self._stored(after, [slot], (clock + PASSED_NS,)))]

    def _refuse_errors(self, state: State) -> None:
        for at in state.positions:
            error = self._nodes[at].error if at is not None and at >= 0 else None
            if error is not None:
                name = self._parties.names[self._nodes[at].party]
                raise AssertionError(f"{name} fails by {type(error).__name__}: {error}")

    def _judge(self, state: State) -> None:
        """No party can go on: all must have ended, and rightly."""
        stuck = []
        for party, at in enumerate(state.positions):
            access = self._access(at)
            if access is not None and not self._watches_only(access):
                stuck.append(f"{self._parties.names[party]} waits for ever: {self._said(access)}")
        assert not stuck, "; ".join(stuck)
        results = {
            name: DIED if at is DEAD else self._nodes[at].result
            for name, at in zip(self._parties.names, state.positions, strict=True)
        }
        self._right(results)

    def _watches_only(self, access: Access) -> bool:
        """Whether it waits for deaths alone, and there need not be one."""
        return access.kind == "await" and {*access.keys} <= {*self._machine.deaths}

    def _access(self, at: Position) -> Access | None:
        return None if at is None else self._nodes[at if at >= 0 else ~at].access

    def _told(self, party: int, number: int, to: int) -> str:
        access = self._nodes[number].access
        answer = self._nodes[to].answer if to >= 0 else "asleep"
        said = "" if answer is None else f" -> {answer}"
        return f"{self._parties.names[party]}: {self._said(access)}{said}"

    def _said(self, access: Access) -> str:
        keys = ", ".join(map(self._machine.name, access.keys))
        return f"{access.kind} {keys}" + (f" {[*access.values]}" if access.values else "")

    def _stored(self, state: State, slots: list[int], values: tuple[int, ...]) -> State:
        memory = [*self._memories[state.memory]]
        if len(memory) < len(self._slots):
            keys = [*self._slots]
            memory += [self._machine.initial.get(key, 0) for key in keys[len(memory) :]]
        for slot, value in zip(slots, values, strict=True):
            memory[slot] = value
        return state._replace(memory=self._number(tuple(memory)))

    def _slot(self, key: int) -> int:
        return self._slots.setdefault(key, len(self._slots))

    def _value(self, memory: tuple[int, ...], slot: int, key: int) -> int:
        return memory[slot] if slot < len(memory) else self._machine.initial.get(key, 0)

    def _number(self, memory: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(memory, len(self._memories))
        if number == len(self._memories):
            self._memories.append(memory)
        return number
