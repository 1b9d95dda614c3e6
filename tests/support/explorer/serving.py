"""Serving in the explorer: rings of orders, caller slots and recalls, with real rings and slots.

The modules are parameters, so that a test can plant faults in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from rankmesh.comm.serving import caller_slots, ring, sleepers
from rankmesh.comm.serving.caller_slots import NO_SLOT
from rankmesh.comm.serving.order_state import OrderState
from rankmesh.comm.serving.orders import (
    AS_ORDERED,
    Answer,
    OutputBuffer,
    Run,
    TensorRef,
    encode_order,
)
from rankmesh.comm.serving.ring import Ring

from .exploration import DIED, Explored, Results, explore
from .machine import Act, Machine

_SEAT = 63
"""The slot that is taken first."""

Build = Any
FAILED = "failed"


@dataclass
class Serving:
    """The processes of a replica: an orchestrator and ranks, with their real rings and slots."""

    ranks: int = 1
    orders: int = 2
    depth: int = 2
    ring: ModuleType = ring
    slots: ModuleType = caller_slots
    preemptions: int | None = None

    def exchange(self, mortal: bool = False) -> Explored:
        """Orders and answers, as many orders ahead as the ring has slots.

        With `mortal` one rank may die, and a supervisor ends the others and tells the caller.
        """
        with self._machine() as machine:
            parties = {"orchestrator": self._giver(machine)}
            names = [f"rank {rank}" for rank in range(self.ranks)]
            parties |= {name: self._rank(machine, rank) for rank, name in enumerate(names)}
            if mortal:
                parties["supervisor"] = self._supervisor(machine, names)
            return explore(
                machine,
                parties,
                _all_answered,
                mortal=names if mortal else (),
                preemptions=self.preemptions,
            )

    def recall(self) -> Explored:
        """An order that is taken back: the rank carries it out, or not, as the giver believes."""

        def right(results: Results) -> None:
            assert (1 in results["rank"]) != results["orchestrator"], f"{results}"
            assert {0, 2} <= {*results["rank"]}, f"{results}"

        with self._machine() as machine:
            parties = {"orchestrator": self._recaller(machine), "rank": self._recalled(machine)}
            return explore(machine, parties, right, preemptions=self.preemptions)

    def room(self) -> Explored:
        """A rank asks for memory for its outputs, and gets it."""
        with self._machine() as machine:
            parties = {"orchestrator": self._granter(machine), "rank": self._asker(machine)}
            return explore(machine, parties, preemptions=self.preemptions)

    def hold(self) -> Explored:
        """A rank whose answer is an error waits until it is released, for the next order."""
        with self._machine() as machine:
            parties = {"orchestrator": self._releaser(machine)}
            for rank in range(self.ranks):
                parties[f"rank {rank}"] = self._holder(machine, rank)
            return explore(machine, parties, preemptions=self.preemptions)

    def notify(self, beside: bool = False) -> Explored:
        """Two processes with news for one caller; `beside`: one rings another descriptor."""
        with self._machine() as machine:
            told = [machine.word(f"news {one}") for one in range(2)]
            parties = {"caller": self._caller(machine, told, beside)}
            for one in range(2):
                bell = self.bell if beside and one else None
                parties[f"teller {one}"] = self._teller(machine, told[one], bell)
            return explore(machine, parties, preemptions=self.preemptions)

    @contextmanager
    def _machine(self) -> Iterator[Machine]:
        with Machine(self.ring, self.slots, sleepers) as machine:
            self.file = self.ring.Ring.create(self.ranks, self.depth)
            self.bell = machine.event("bell")
            self.files = self.slots.CallerSlots.create()
            self.failed = machine.word("failed")
            yield machine

    def _view(self) -> SimpleNamespace:
        slots = self.slots.CallerSlots(self.files, False)
        mine = self.ring.Ring(self.file, self.bell, slots)
        return SimpleNamespace(ring=mine, slots=slots)

    def _giver(self, machine: Machine) -> Build:
        def build() -> Act:
            view = self._view()
            seat = view.slots.take()
            assert seat == _SEAT

            def act() -> object:
                for number in range(self.orders + self.depth):
                    machine.forget("gives", number)
                    first = number - self.depth
                    if first >= 0 and not self._collected(machine, view.ring, first):
                        return FAILED
                    if number < self.orders:
                        machine.forget("has room", number)
                        view.ring.give(number, _order(number), seat)
                return "answered"

            return act

        return build

    def _collected(self, machine: Machine, mine: Ring, number: int) -> bool:
        while (answers := mine.answers(number)) is None:
            if self.failed[0]:
                return False
            mine.wait(_SEAT)
            machine.forget("waits", number)
        expected = {rank: _answer(number, rank) for rank in range(0, self.ranks, 2)}
        assert answers == expected, f"{answers} where there should be {expected}"
        return True

    def _rank(self, machine: Machine, rank: int) -> Build:
        def build() -> Act:
            mine = self._view().ring

            def act() -> None:
                for number in range(self.orders):
                    machine.forget("takes", number)
                    order = mine.take(number, rank)
                    machine.forget("has", number)
                    assert order.inputs[0].offset == number, f"took {order} as order {number}"
                    mine.reply(number, rank, AS_ORDERED if rank % 2 else _answer(number, rank))

            return act

        return build

    def _supervisor(self, machine: Machine, names: list[str]) -> Build:
        def build() -> Act:
            slots = self.slots.CallerSlots(self.files, False)

            def act() -> None:
                (dead,) = machine.await_death(*names)
                for other in {*names} - {dead}:
                    machine.kill(other)
                self.failed[0] = 1
                slots.announce(_SEAT)

            return act

        return build

    def _recaller(self, machine: Machine) -> Build:
        def build() -> Act:
            view = self._view()
            seat, mine = view.slots.take(), view.ring

            def collect(number: int) -> None:
                while mine.answers(number) is None:
                    mine.wait(seat)

            def act() -> bool:
                for number in range(2):
                    mine.give(number, _order(number), seat)
                recalled: bool = mine.recall(1)
                machine.forget(recalled)
                collect(0)
                if not recalled:
                    collect(1)
                machine.forget("gives", recalled)
                mine.give(2, _order(2), seat)
                collect(2)
                return recalled

            return act

        return build

    def _recalled(self, machine: Machine) -> Build:
        def build() -> Act:
            mine = self._view().ring

            def act() -> tuple[int, ...]:
                done: tuple[int, ...] = ()
                for number in range(3):
                    machine.forget(done)
                    if mine.take(number, 0) is not None:
                        done = (*done, number)
                        machine.forget("has", done)
                        mine.reply(number, 0, AS_ORDERED)
                return done

            return act

        return build

    def _granter(self, machine: Machine) -> Build:
        def build() -> Act:
            mine = self._view().ring

            def act() -> None:
                for number in range(self.orders):
                    machine.forget(number)
                    mine.give(number, _order(number), NO_SLOT)
                    while mine.answers(number) is None:
                        machine.read_event(self.bell)
                        if mine.state(number, 0) is OrderState.NEEDS_ROOM:
                            needed = mine.answer(number, 0).needed
                            mine.grant(number, 0, OutputBuffer(number, needed))

            return act

        return build

    def _asker(self, machine: Machine) -> Build:
        def build() -> Act:
            mine = self._view().ring

            def act() -> None:
                for number in range(self.orders):
                    machine.forget(number)
                    mine.take(number, 0)
                    room = mine.ask_for_room(number, 0, Answer([], needed=64 + number))
                    assert room == OutputBuffer(number, 64 + number), f"got {room}"
                    mine.reply(number, 0, AS_ORDERED)

            return act

        return build

    def _releaser(self, machine: Machine) -> Build:
        def build() -> Act:
            view = self._view()
            seat, mine = view.slots.take(), view.ring

            def act() -> None:
                for number in range(self.orders):
                    machine.forget(number)
                    mine.give(number, _order(number), seat)
                    while (answers := mine.answers(number)) is None:
                        mine.wait(seat)
                        machine.forget("waits", number)
                    assert answers[0].error == "ModelError", f"{answers}"
                    mine.release(number)

            return act

        return build

    def _holder(self, machine: Machine, rank: int) -> Build:
        def build() -> Act:
            mine = self._view().ring

            def act() -> None:
                for number in range(self.orders):
                    machine.forget(number)
                    mine.take(number, rank)
                    machine.forget("has", number)
                    answer = AS_ORDERED if rank else Answer([], error="ModelError")
                    mine.reply(number, rank, answer)
                    if answer.error:
                        mine.hold(number, rank)

            return act

        return build

    def _caller(self, machine: Machine, told: list[Any], beside: bool) -> Build:
        def build() -> Act:
            slots = self.slots.CallerSlots(self.files, False)
            seat = slots.take()

            def act() -> None:
                seen: list[int] = [0, 0]
                while seen != [self.orders, self.orders]:
                    machine.forget(*seen)
                    new = [word[0] for word in told]
                    assert all(map(int.__ge__, new, seen)), f"news {new} after {seen}"
                    seen = new
                    if seen == [self.orders, self.orders]:
                        return
                    if not beside:
                        slots.wait(seat)
                    elif not slots.wait_beside(seat, self.bell):
                        machine.read_event(self.bell)

            return act

        return build

    def _teller(self, machine: Machine, told: Any, bell: int | None) -> Build:
        def build() -> Act:
            slots = self.slots.CallerSlots(self.files, False)

            def act() -> None:
                for number in range(1, self.orders + 1):
                    machine.forget(number)
                    told[0] = number
                    if bell is None:
                        slots.notify(_SEAT)
                    else:
                        machine.ring_event(bell)

            return act

        return build


def _order(number: int) -> bytes:
    return encode_order(Run((TensorRef(number, (4,)),), ()))


def _answer(number: int, rank: int) -> Answer:
    return Answer([TensorRef(100 + number, (rank,))])


def _all_answered(results: Results) -> None:
    """Without a death all is answered; after one, the caller is told or has all answers."""
    died = DIED in results.values()
    assert results["orchestrator"] == "answered" or died, f"{results}"
